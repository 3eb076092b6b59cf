/** The part of rocksdb-native that Millrace uses; the package has no types. */
declare module 'rocksdb-native' {
  interface Range {
    readonly gte?: Uint8Array
    readonly gt?: Uint8Array
    readonly lt?: Uint8Array
  }
  interface WriteBatch {
    tryPut(key: Uint8Array, value: Uint8Array): void
    tryDelete(key: Uint8Array): void
    tryDeleteRange(start: Uint8Array, end: Uint8Array): void
    flush(): Promise<void>
  }
  interface ReadBatch {
    get(key: Uint8Array): Promise<Uint8Array | null>
    tryFlush(): void
  }
  interface BatchOptions {
    readonly autoDestroy: boolean
    readonly capacity: number
  }
  interface Entry {
    readonly key: Uint8Array
    readonly value: Uint8Array
  }
  export default class RocksDB {
    constructor(path: string, options?: Readonly<Record<string, unknown>>)
    ready(): Promise<void>
    write(options: BatchOptions): WriteBatch
    read(options: BatchOptions): ReadBatch
    get(key: Uint8Array): Promise<Uint8Array | null>
    iterator(
      range: Range,
      options: { readonly capacity: number; readonly limit?: number },
    ): AsyncIterable<Entry>
    snapshot(): RocksDB
    approximateSize(
      start: Uint8Array,
      end: Uint8Array,
      options?: Readonly<Record<string, unknown>>,
    ): Promise<number>
    close(): Promise<void>
  }
}
