# Sourced by the commands in scripts/: makes sure that the packages are installed, and puts their Node 24 first on the PATH.
# Expects the repository's root as the working directory.

if ! command -v npm > /dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "npm is missing: installing nodejs and npm"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nodejs npm > /dev/null
  else
    echo "npm is missing: install Node.js 20 or newer with npm, then run this again" >&2
    exit 1
  fi
fi

# True if node_modules holds what package-lock.json asks for.
packages_are_current() {
  [ -x node_modules/.bin/node ] && [ -f node_modules/.package-lock.json ] && node -e '
    const { readFileSync } = require("fs")
    const read = file => JSON.parse(readFileSync(file, "utf8")).packages
    const wanted = read("package-lock.json"), installed = read("node_modules/.package-lock.json")
    const stale = Object.keys(wanted).filter(path => path !== "" &&
      (installed[path] ? installed[path].version !== wanted[path].version : !wanted[path].optional && !wanted[path].devOptional))
    process.exit(stale.length === 0 ? 0 : 1)'
}

# An older Node's npm leaves optional packages out that need a newer one; the tests use this one.
registry_client_is_there() { [ -f node_modules/@kafkajs/confluent-schema-registry/package.json ]; }

if ! packages_are_current; then
  echo "installing packages (npm ci)"
  npm ci --no-audit --no-fund
fi

PATH="$PWD/node_modules/.bin:$PATH"
export PATH

if ! registry_client_is_there; then
  echo "installing optional packages that need Node 22"
  npm install --no-save --no-audit --no-fund
fi
