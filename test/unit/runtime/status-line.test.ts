import { beforeEach, describe, expect, test } from '@jest/globals'
import { StatusLine } from '../../../src/runtime/status-line.ts'

const ERASE_LINE = '\u001b[2K'

/** A terminal of one colour: what a person would see, line by line. */
class SimulatedTerminal {
  readonly isTTY = true
  columns: number | undefined = 20
  readonly lines: string[] = ['']
  #column = 0

  write(text: string): boolean {
    for (const part of text.replaceAll(ERASE_LINE, '\f').split(/(\r|\n|\f)/)) {
      const last = this.lines.length - 1
      if (part === '\r') this.#column = 0
      else if (part === '\f') this.lines[last] = ''
      else if (part === '\n') {
        this.lines.push('')
        this.#column = 0
      } else {
        const line = this.lines[last]!.padEnd(this.#column)
        this.lines[last] = line.slice(0, this.#column) + part + line.slice(this.#column + part.length)
        this.#column += part.length
      }
    }
    return true
  }
}

let terminal: SimulatedTerminal
let screen: StatusLine
beforeEach(() => {
  terminal = new SimulatedTerminal()
  screen = new StatusLine(terminal)
})

describe('on a terminal', () => {
  test('the status is the last line, and lines scroll above it', () => {
    screen.write('before\n')
    screen.show('RUNNING 1')
    screen.write('a line\n')
    screen.show('RUN 2')
    screen.write('another\nand one more\n')
    expect(terminal.lines).toEqual(['before', 'a line', 'another', 'and one more', 'RUN 2'])
  })

  test('a status that is too wide is cut, since a wrapped one could not be cleared', () => {
    screen.show('x'.repeat(50))
    expect(terminal.lines).toEqual([`${'x'.repeat(18)}…`])
    terminal.columns = 10
    screen.write('line\n')
    expect(terminal.lines).toEqual(['line', `${'x'.repeat(8)}…`])
  })

  test('closing takes the status away', () => {
    screen.show('RUNNING')
    screen.close()
    screen.write('bye\n')
    expect(terminal.lines).toEqual(['bye', ''])
  })

  test('whoever prints to stdout of the same terminal gets a line of his own', () => {
    const stdout = { isTTY: true, write: (text: string) => terminal.write(text) }
    screen.shareWith(stdout)
    screen.show('RUNNING')
    stdout.write('hello\n')
    stdout.write('half ')
    stdout.write('a line\n')
    expect(terminal.lines.slice(0, 1)).toEqual(['hello'])
    expect(terminal.lines.at(-1)).toBe('RUNNING')
  })

  test('closing gives stdout back as it was', () => {
    const write = (text: string) => terminal.write(text)
    const stdout = { isTTY: true, write }
    screen.shareWith(stdout)
    expect(stdout.write).not.toBe(write)
    screen.close()
    expect(stdout.write).toBe(write)
  })

  test('an unchanged status is not drawn again', () => {
    screen.show('RUNNING')
    const writes: string[] = []
    terminal.write = (text) => writes.push(text) > 0
    screen.show('RUNNING')
    expect(writes).toEqual([])
  })
})

describe('elsewhere', () => {
  test('no status and no control character is written', () => {
    const written: string[] = []
    const plain = new StatusLine({ write: (text) => written.push(text) })
    const stdout = { isTTY: true, write: () => true }
    const { write } = stdout
    plain.shareWith(stdout)
    plain.show('RUNNING')
    plain.write('a line\n')
    plain.close()
    expect(written).toEqual(['a line\n'])
    expect(stdout.write).toBe(write)
  })
})
