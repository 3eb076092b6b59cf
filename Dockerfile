# syntax=docker/dockerfile:1
# An image that runs a job: put the job's module (and its node_modules, if it has any) into /job.
#
#   docker build -t millrace .
#   docker run -e KAFKA_BROKERS=kafka:9092 -v "$PWD/job.ts:/job/job.ts:ro" millrace job.ts
#
# Every further container with the same job is one more worker.

FROM node:24-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY src src
RUN npm run build && npm prune --omit=dev

FROM node:24-slim
ENV NODE_ENV=production
# Node looks for packages in every folder up to the root, so /job/job.ts finds `millrace` here.
COPY --from=build /build/package.json /node_modules/millrace/package.json
COPY --from=build /build/node_modules /node_modules/millrace/node_modules
COPY --from=build /build/dist /node_modules/millrace/dist
RUN ln -s /node_modules/millrace/dist/cli/main.js /usr/local/bin/millrace \
  && chmod +x /node_modules/millrace/dist/cli/main.js \
  && mkdir -p /job /state && chown node:node /job /state
USER node
WORKDIR /job
VOLUME /state
# `docker stop` sends SIGTERM to the job itself (exec form, no shell between): it takes a last checkpoint, commits it and leaves.
# Give it time for that: docker stop --timeout 60, or terminationGracePeriodSeconds in Kubernetes.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/node_modules/millrace/dist/cli/main.js", "run"]
