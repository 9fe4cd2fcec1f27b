#!/usr/bin/env node
// diary is an informd handler in Node.js. For each change, it appends a line of JSON to the file
// that its config names. The config can also ask for related objects from informd's cache in that
// line, and for an Event in the cluster.
//
// It needs @grpc/grpc-js and @grpc/proto-loader, and informd's handler.proto and cache.proto beside
// it. README.md shows how to get them. To write your own handler, change configure, handle, health
// and drain. The rest speaks the protocol and can stay as it is.
'use strict'

const { AsyncLocalStorage } = require('node:async_hooks')
const { randomUUID } = require('node:crypto')
const { fstatSync, mkdtempSync } = require('node:fs')
const fs = require('node:fs/promises')
const os = require('node:os')
const path = require('node:path')
const grpc = require('@grpc/grpc-js')
const protoLoader = require('@grpc/proto-loader')

const description = { name: 'diary', version: '1.0' } // with concurrency, if it cannot bear more at once
let file
let source, index // of related
let tell = false

// configure returns the mistakes in the config, as a list of {path, message}. It may also throw.
async function configure(config) {
  const known = { file: 'string', related: 'string', tell: 'boolean' }
  const problems = Object.keys(config).filter((key) => typeof config[key] !== known[key])
    .map((key) => ({ path: [key], message: known[key] ? `want a ${known[key]}` : `unknown; known are ${Object.keys(known).join(', ')}` }))
  if (problems.length > 0) return problems
  if (config.related) [source, index] = config.related.split('.')
  if (config.related && !(source && index && cache)) {
    problems.push({ path: ['related'], message: 'want SOURCE.INDEX, and a manifest whose access.read has the source' })
  }
  tell = config.tell === true
  if (!config.file) return [...problems, { path: ['file'], message: 'required: the path that lines are appended to' }]
  if (problems.length === 0) {
    await fs.open(config.file, 'a', 0o600).then((opened) => { file = opened },
      (e) => problems.push({ path: ['file'], message: e.message }))
  }
  return problems
}

// handle handles one Event. It returns the actions that informd should perform in the cluster. It
// runs for several events at once, but never for two of one object of one rule. An event may come
// again, with the same id. If its rule has a group, event.items has all changes, and the answer is
// for all of them; event itself is the newest. signal aborts when informd no longer wants the answer. An error with
// reject set makes the event a dead letter. After any other error informd sends the event again,
// with after set not sooner than after that many seconds.
async function handle(event, signal) {
  if (!['added', 'updated', 'deleted', 'synced'].includes(event.event)) {
    const kind = event.event.slice(0, 40)
    throw Object.assign(new Error(`a kind of change that this version does not know: ${kind}`), { reject: true })
  }
  let lines = ''
  for (const change of event.items.length > 0 ? event.items : [event]) { // of a group, or the only one
    const bytes = change.payload.length > 0 ? change.payload : change.object
    const line = {
      id: change.id, attempt: event.attempt, event: change.event, namespace: change.namespace, name: change.name,
      data: bytes.length > 0 ? parse(bytes.toString()) : null,
    }
    if (index) { // for a node, for example, the pods on it
      line.related = (await byIndex(source, index, change.name, signal)).map((object) => object.metadata.name)
    }
    lines += stringify(line) + '\n'
  }
  try {
    signal.throwIfAborted()
    await file.appendFile(lines)
  } catch (e) { // perhaps the disk is full
    throw Object.assign(e, { after: 10 })
  }
  log('debug', 'written')
  if (!tell || event.event === 'synced') return []
  const { resource, namespace, name } = event
  return [{ event: { target: { resource, namespace, name }, reason: 'Noted', message: 'It was written to the diary.' } }]
}

// health returns a problem for the operator, or ''. informd calls it every ten seconds.
async function health() {
  return (await file.stat()).nlink === 0 ? 'the file was removed' : ''
}

// drain flushes what the handler holds back. No more events follow.
async function drain() {
  await file.sync()
}

let cache // the client of informd's cache, if the manifest has access.read

// byIndex returns the objects that an index of a source holds under a value. cache.proto has more
// calls of this form.
async function byIndex(source, index, value, signal) {
  const pages = cache.byIndex({ source, index, value }, { deadline: Date.now() + 5000 })
  const stop = () => pages.cancel()
  signal.addEventListener('abort', stop)
  try {
    const objects = []
    for await (const page of pages) objects.push(...page.objects.map((o) => parse(o.toString())))
    return objects
  } catch (e) { // perhaps the source has not synced yet
    throw Object.assign(new Error(`read the cache: ${e.details ?? e.message}`), { after: 0 })
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

// parse and stringify keep integers of 64 bits, which JSON.parse would round: beyond 2^53 they are
// BigInts. Between the two steps, they are strings with a tag that nobody can guess.
const tag = randomUUID()
// token matches strings, too, because digits in them are not numbers.
const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g

function parse(text) {
  const isLarge = (t) => /^-?\d+$/.test(t) && !Number.isSafeInteger(Number(t))
  return JSON.parse(text.replace(token, (t) => (isLarge(t) ? `"${tag}${t}"` : t)),
    (_, v) => (typeof v === 'string' && v.startsWith(tag) ? BigInt(v.slice(tag.length)) : v))
}

function stringify(value) {
  return JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? tag + v : v))
    .replace(new RegExp(`"${tag}(-?\\d+)"`, 'g'), '$1')
}

const levels = ['debug', 'info', 'warn', 'error']
const least = levels.indexOf(process.env.INFORMD_LOG_LEVEL ?? 'info')

const about = new AsyncLocalStorage() // the event at work; its lines carry that

function log(level, message, attributes) {
  if (levels.indexOf(level) < least) return // informd would not show it
  const line = { '@level': level, '@message': message, ...about.getStore(), ...attributes }
  process.stderr.write(JSON.stringify(line) + '\n')
}

const busy = new Set() // objects with an event at work
let drained = false

async function answer(event, signal) {
  const key = JSON.stringify([event.rule, event.namespace, event.name])
  if (busy.has(key)) { // an event timed out and came again
    return { seq: event.seq, retry: { reason: 'still at work on this object' } }
  }
  busy.add(key)
  try {
    return { seq: event.seq, done: { actions: await handle(event, signal) } }
  } catch (e) {
    if (e.reject) return { seq: event.seq, reject: { reason: e.message } }
    if (e.after === undefined) log('error', 'handle failed', { error: e.stack }) // a bug
    return { seq: event.seq, retry: { reason: String(e), after: { seconds: e.after ?? 0 } } }
  } finally {
    busy.delete(key)
  }
}

function deliver(stream) {
  const working = new Map() // by seq
  let ended = false
  const finish = () => { if (ended && working.size === 0) stream.end() }
  stream.on('data', ({ events, cancel }) => {
    for (const event of events) {
      const controller = new AbortController()
      const { seconds = 30, nanos = 0 } = event.timeLimit ?? {}
      const limit = setTimeout(() => controller.abort(), Number(seconds) * 1e3 + nanos / 1e6)
      working.set(event.seq, controller)
      const { rule, namespace, name, id } = event
      const subject = { rule, key: namespace ? `${namespace}/${name}` : name, id }
      about.run(subject, answer, event, controller.signal).then((answered) => {
        clearTimeout(limit)
        working.delete(event.seq)
        stream.write({ answers: [answered] })
        finish()
      })
    }
    for (const seq of cancel) working.get(seq)?.abort() // it still gets an answer
  })
  stream.on('end', () => { ended = true; finish() })
  stream.on('error', () => {}) // informd is gone
}

// unary turns a function into the implementation of a call.
const unary = (f) => (call, callback) => {
  Promise.resolve(call.request).then(f).then((response) => callback(null, response), (e) => {
    log('error', 'a call failed', { error: e.stack }) // a bug; informd learns only that it failed
    callback(e)
  })
}

// inBytes describes a service with one call whose messages stay bytes, so it needs no .proto file.
const inBytes = (service, call) => ({
  [call]: {
    path: `/${service}/${call}`, requestStream: false, responseStream: false,
    requestSerialize: (b) => b, requestDeserialize: (b) => b, responseSerialize: (b) => b, responseDeserialize: (b) => b,
  },
})

function main() {
  if (process.env.INFORMD_HANDLER_COOKIE !== '3b1c2f3c0c5e4f0f9a57c1e2d0a2f7c1') {
    console.error('diary is a handler: informd starts it, for a Handler manifest with its path under spec.command')
    process.exit(1)
  }
  const { Handler, Cache } = grpc.loadPackageDefinition(protoLoader.loadSync(
    ['handler.proto', 'cache.proto'].map((name) => path.join(__dirname, name)),
    { longs: String, defaults: true })).informd.handler.v1 // a seq has 64 bits, too
  // An object may be larger than gRPC's default limit of 4 MiB.
  const large = { 'grpc.max_receive_message_length': 64 << 20 }
  if (process.env.INFORMD_CACHE_SOCKET) {
    cache = new Cache(process.env.INFORMD_CACHE_SOCKET, grpc.credentials.createInsecure(), large)
  }
  const server = new grpc.Server(large)
  server.addService(Handler.service, {
    describe: unary(() => description),
    configure: unary(async ({ config }) => {
      const fields = config.length > 0 ? parse(config.toString()) : {}
      const isObject = typeof fields === 'object' && fields !== null && !Array.isArray(fields)
      return { problems: isObject ? await configure(fields) : [{ message: 'want fields' }] }
    }),
    health: unary(async () => ({ problem: await health() })),
    drain: unary(async () => { await drain(); drained = true; return {} }),
    deliver,
  })
  // Two encoded messages: a HealthCheckResponse with status SERVING, and an Empty.
  server.addService(inBytes('grpc.health.v1.Health', 'Check'), { Check: unary(() => Buffer.from([8, 1])) })
  server.addService(inBytes('plugin.GRPCController', 'Shutdown'), {
    Shutdown: unary(() => { stop(); return Buffer.alloc(0) }),
  })

  const stop = () => { // even if handle still runs after a second: informd has given up on it
    server.tryShutdown(() => process.exit(0))
    setTimeout(() => process.exit(0), 1000)
  }
  process.on('SIGINT', () => {}) // informd decides when a handler ends
  process.on('SIGTERM', () => { if (drained) stop() })
  if (fstatSync(0).isFIFO()) { // from other hosts than informd it may be anything
    process.stdin.on('end', stop).resume() // ends when informd stops this process, or is gone
  }

  // Other hosts may leave the directory to the handler.
  const folder = process.env.PLUGIN_UNIX_SOCKET_DIR || mkdtempSync(path.join(os.tmpdir(), 'diary-'))
  const socket = path.join(folder, 'handler')
  server.bindAsync('unix:' + socket, grpc.ServerCredentials.createInsecure(), (e) => {
    if (e) throw e
    process.stdout.write(`1|1|unix|${socket}|grpc|\n`) // the handshake
  })
}

main()
