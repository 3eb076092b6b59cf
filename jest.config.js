/**
 * Two projects: `unit` needs nothing installed, `integration` needs real services (scripts/test starts them).
 * TypeScript is compiled by swc to ES modules, so jest must run with NODE_OPTIONS=--experimental-vm-modules.
 */
const shared = {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  modulePathIgnorePatterns: ['<rootDir>/dist/'],
  moduleFileExtensions: ['ts', 'js', 'mjs', 'cjs', 'json', 'node'],
  moduleNameMapper: {
    '^millrace$': '<rootDir>/src/index.ts',
    '^millrace/testing$': '<rootDir>/src/testing/index.ts',
  },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        swcrc: false,
        sourceMaps: 'inline',
        jsc: { parser: { syntax: 'typescript' }, target: 'es2024', keepClassNames: true },
        module: { type: 'es6' },
      },
    ],
  },
}

/** A contract suite that runs on real services; every other one runs on the simulated ones. */
const realContracts = ['<rootDir>/test/contract/.*\\.real\\.test\\.ts$', '<rootDir>/test/contract/kafkajs-cluster\\.test\\.ts$']

export default {
  // Each worker compiles for itself, but two halves of the suite still take less time than the whole.
  maxWorkers: '100%',
  // Of both projects: jest takes no time-out from a project. A busy machine is slow; a test that hangs ends all the same.
  testTimeout: 120_000,
  projects: [
    {
      ...shared,
      displayName: 'unit',
      testMatch: ['unit', 'property', 'contract', 'consistency', 'types', 'api', 'issues', 'simulation', 'compat', 'bench'].map(
        folder => `<rootDir>/test/${folder}/**/*.test.ts`,
      ),
      testPathIgnorePatterns: ['/node_modules/', ...realContracts],
    },
    {
      ...shared,
      displayName: 'integration',
      testMatch: [
        '<rootDir>/test/integration/**/*.test.ts',
        '<rootDir>/test/fault/**/*.test.ts',
        '<rootDir>/test/package/**/*.test.ts',
        '<rootDir>/test/contract/kafkajs-cluster.test.ts',
        '<rootDir>/test/contract/*.real.test.ts',
      ],
    },
  ],
}
