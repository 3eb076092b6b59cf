/** Names a side output. Two tags with one id are the same output. */
export class OutputTag<T> {
  readonly id: string
  declare readonly __type?: T
  constructor(id: string) {
    this.id = id
  }
}
