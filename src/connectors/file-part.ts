/**
 * A file that is being written under its hidden name.
 *
 *   add* ─► drain (bytes go to the file) ─► sync (… and are durable: the first `size` bytes may be named by a checkpoint) ─► add* ─► …
 *                                        ─► finish (the file is whole, durable and closed)
 */
import type { FileHandle } from 'node:fs/promises'
import { promisify } from 'node:util'
import { crc32, gzip } from 'node:zlib'
import { createFile, onDisk } from './file-disk.ts'
import type { FileEncoder } from './file-format.ts'

const pack = promisify(gzip)

export interface PartFileOptions<T> {
  /** The whole hidden path. */
  readonly file: string
  readonly encoder: FileEncoder<T>
  readonly gzip: boolean
  /** Epoch ms. */
  readonly openedAt: number
}

export class PartFile<T> {
  readonly openedAt: number
  readonly #file: string
  readonly #encoder: FileEncoder<T>
  readonly #gzip: boolean
  #handle: FileHandle | undefined
  #written = 0
  #crc32 = 0
  #records = 0
  #writtenAt: number

  constructor({ file, encoder, gzip: packed, openedAt }: PartFileOptions<T>) {
    this.#file = file
    this.#encoder = encoder
    this.#gzip = packed
    this.openedAt = openedAt
    this.#writtenAt = openedAt
  }

  /** Bytes of the file, those that are still held back included; held back ones count before compression. */
  get size(): number {
    return this.#written + this.#encoder.size
  }

  /** Bytes that are held back. */
  get held(): number {
    return this.#encoder.size
  }

  /** When a value was added last, epoch ms. */
  get writtenAt(): number {
    return this.#writtenAt
  }

  /** What the file is on disk, once all is written. */
  get facts(): { readonly size: number; readonly crc32: number; readonly records: number } {
    return { size: this.#written, crc32: this.#crc32, records: this.#records }
  }

  add(value: T, now: number): void {
    this.#encoder.add(value)
    this.#records++
    this.#writtenAt = now
  }

  async drain(): Promise<void> {
    await this.#write(this.#encoder.take())
  }

  async sync(): Promise<void> {
    await this.drain()
    await onDisk(this.#file, async () => this.#handle?.sync())
  }

  async finish(): Promise<void> {
    await this.#write(this.#encoder.finish())
    const handle = await this.#open()
    await onDisk(this.#file, () => handle.sync())
    await this.close()
  }

  /** Lets go of the file as it is. */
  async close(): Promise<void> {
    const handle = this.#handle
    this.#handle = undefined
    await onDisk(this.#file, async () => handle?.close())
  }

  /** Each piece is a gzip member of its own, so that the file can end behind any of them. */
  async #write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return
    const handle = await this.#open()
    const stored = this.#gzip ? await pack(bytes) : bytes
    await onDisk(this.#file, () => handle.appendFile(stored))
    this.#crc32 = crc32(stored, this.#crc32)
    this.#written += stored.length
  }

  async #open(): Promise<FileHandle> {
    this.#handle ??= await createFile(this.#file)
    return this.#handle
  }
}
