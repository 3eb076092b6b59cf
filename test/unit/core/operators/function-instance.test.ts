import { expect, test } from '@jest/globals'
import { perSubtask } from '../../../../src/core/operators/function-instance.ts'

test('a plain function is used as it is', () => {
  const f = () => 1
  expect(perSubtask(f)()).toBe(f)
})

test('each subtask has fields of its own, and the original stays as it was', () => {
  class Counter {
    count = 0
    next() {
      return ++this.count
    }
  }
  const original = new Counter()
  const make = perSubtask(original)
  const first = make()
  first.next()
  first.next()
  expect([first.count, make().next(), original.count]).toEqual([2, 1, 0])
  expect(first).toBeInstanceOf(Counter)
})

test('containers that a class makes are not shared by its copies', () => {
  class Dedup {
    seen = new Set<number>()
  }
  const make = perSubtask(new Dedup())
  make().seen.add(1)
  expect(make().seen.size).toBe(0)
})

test('settings made on the original are in the copies', () => {
  class Limit {
    max = 1
    label: string | undefined
  }
  const original = Object.assign(new Limit(), { max: 5, extra: ['x'] })
  expect(perSubtask(original)()).toEqual({ max: 5, label: undefined, extra: ['x'] })
})

test('a class with #private fields and no constructor arguments works, with fields of its own', () => {
  class Counter {
    #count = 0
    next() {
      return ++this.#count
    }
  }
  const make = perSubtask(new Counter())
  const first = make()
  first.next()
  expect([first.next(), make().next()]).toEqual([2, 1])
})

test('constructor arguments are kept in copies', () => {
  class Above {
    readonly limit: number
    hits = 0
    constructor(limit: number) {
      this.limit = limit
    }
    test(x: number) {
      if (x > this.limit) this.hits++
      return this.hits
    }
  }
  const make = perSubtask(new Above(3))
  expect([make().test(5), make().test(5)]).toEqual([1, 1])
})

test('a class with #private fields and constructor arguments is used as it is', () => {
  class Above {
    #limit: number
    constructor(limit: number) {
      this.#limit = limit
    }
    test(x: number) {
      return x > this.#limit
    }
  }
  expect(perSubtask(new Above(3))().test(5)).toBe(true)
})

test('an arrow function field uses the copy it belongs to', () => {
  class Counter {
    count = 0
    next = () => ++this.count
  }
  const make = perSubtask(new Counter())
  const first = make()
  first.next()
  expect([first.count, make().next()]).toEqual([1, 1])
})

test('an arrow function field of a class with constructor arguments still works', () => {
  class Adder {
    sum: number
    add = (x: number) => (this.sum += x)
    constructor(start: number) {
      this.sum = start
    }
  }
  const copy = perSubtask(new Adder(10))()
  expect([copy.add(1), copy.sum]).toEqual([11, 11])
})

test('an object literal is copied with its methods', () => {
  const make = perSubtask({
    total: 0,
    add(x: number) {
      this.total += x
      return this.total
    },
  })
  expect([make().add(1), make().add(1)]).toEqual([1, 1])
})
