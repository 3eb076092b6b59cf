#!/usr/bin/env node
/**
 * The `millrace` command. This file checks the version of Node.js before any other file is loaded, because an older one could not
 * even read them; so it imports nothing statically and uses plain syntax only.
 */
const version = process.versions.node.split('.').map(Number)
const major = version[0] || 0
const minor = version[1] || 0

// TypeScript jobs run without a build since 22.18 and 23.6.
if (major > 23 || (major === 23 && minor >= 6) || (major === 22 && minor >= 18)) {
  import('./command-line.ts').then((module) => module.runCommandLine(process.argv.slice(2)))
} else {
  process.stderr.write(
    `Millrace needs Node.js 22.18 or newer; this is ${process.versions.node} (${process.execPath}) [MILLRACE_UNSUPPORTED_NODE]\n` +
      'What to do: Run the job with Node.js 22.18 or newer.\n',
  )
  process.exitCode = 2
}
