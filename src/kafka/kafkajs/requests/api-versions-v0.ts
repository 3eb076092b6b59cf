import type { RequestKind } from '../request.ts'

/** Lowest and highest version that a broker speaks, by api key. */
export type ApiVersionRanges = Readonly<
  Record<number, { readonly minVersion: number; readonly maxVersion: number }>
>

/** ApiVersions v0: understood by every broker, also before authentication. */
export const apiVersionsV0: RequestKind<
  void,
  { readonly errorCode: number; readonly versions: ApiVersionRanges }
> = {
  api: 'ApiVersions',
  apiKey: 18,
  version: 0,
  flexible: false,
  encode() {},
  decode(body) {
    const errorCode = body.int16()
    const versions: Record<number, { minVersion: number; maxVersion: number }> = {}
    body.array(() => {
      versions[body.int16()] = { minVersion: body.int16(), maxVersion: body.int16() }
    })
    return { errorCode, versions }
  },
}
