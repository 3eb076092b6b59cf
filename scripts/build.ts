/** Builds dist from src: compiles, copies what is not TypeScript (Lua scripts, pages), and makes the command executable. */
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const [SRC, DIST] = [join(ROOT, 'src'), join(ROOT, 'dist')]

// A file that src has no more must not be published.
rmSync(DIST, { recursive: true, force: true })
try {
  execFileSync(
    process.execPath,
    [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', join(ROOT, 'tsconfig.build.json')],
    {
      stdio: 'inherit',
    },
  )
} catch (error) {
  process.exit((error as { status?: number }).status ?? 1)
}
cpSync(SRC, DIST, {
  recursive: true,
  filter: (path) => statSync(path).isDirectory() || !path.endsWith('.ts'),
})
chmodSync(join(DIST, 'cli', 'main.js'), 0o755)
