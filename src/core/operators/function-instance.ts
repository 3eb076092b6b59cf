/**
 * One copy of a user's function object for each subtask.
 *
 * A job declares `process(new CountPerUser())` once, but each subtask, and each attempt, needs fields of its own: state handles are set in
 * `open`, and what an attempt that failed left in a field must not reach the next one. (Flink gets this from serializing functions.)
 *
 *   a plain function                       used as it is
 *   a class whose constructors take nothing   constructed anew, then the settings made on the original are copied over
 *   any other object                       copied, field by field
 *   a class whose constructor takes arguments and that has #private fields,
 *   or arrow functions that hold on to `this`   used as it is: such fields cannot be copied
 *
 * In the last case two subtasks in one process share the object, and the guard of state handles reports the mix-up.
 */

/** Returns a maker of copies of `fn`; the original stays untouched. */
export function perSubtask<F>(fn: F): () => F {
  if (typeof fn !== 'object' || fn === null) return () => fn
  const original: object = fn
  const constructors = constructorsOf(original)
  if (constructors.length > 0 && constructors.every((one) => one.length === 0))
    return () => constructAnew(original, constructors[0]!) as F
  if (constructors.length > 0 && (constructors.some(declaresPrivateFields) || hasBoundFunctions(original)))
    return () => fn
  return () => Object.create(Object.getPrototypeOf(original), Object.getOwnPropertyDescriptors(original)) as F
}

type Constructor = new () => object

/** The classes of an object, most derived first; empty for object literals. */
function constructorsOf(value: object): Constructor[] {
  const found: Constructor[] = []
  for (
    let prototype = Object.getPrototypeOf(value);
    prototype !== null && Object.getPrototypeOf(prototype) !== null;
    prototype = Object.getPrototypeOf(prototype)
  ) {
    const owner = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value
    if (typeof owner !== 'function') return []
    found.push(owner as Constructor)
  }
  return found
}

/** Fields that the constructor makes anew win over the original's objects, so that containers are not shared. */
function constructAnew(original: object, make: Constructor): object {
  const copy = new make()
  for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(original))) {
    const fresh = Object.getOwnPropertyDescriptor(copy, name)
    if (fresh === undefined || !isMadeByClass(fresh.value, descriptor.value))
      Object.defineProperty(copy, name, descriptor)
  }
  return copy
}

/** Containers, and arrow functions of the class text, which are bound to the new object's `this`. */
function isMadeByClass(fresh: unknown, original: unknown): boolean {
  if (typeof fresh === 'function' && typeof original === 'function') return String(fresh) === String(original)
  return isObject(fresh) && isObject(original)
}

/** True if a field holds an arrow function that mentions `this`: it would go on using the original. */
function hasBoundFunctions(original: object): boolean {
  return Object.values(original).some(
    (value) =>
      typeof value === 'function' && !Object.hasOwn(value, 'prototype') && /\bthis\b/.test(String(value)),
  )
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

/** Looks for `#name` declarations in the class text; also those that a compiler turned into weak maps. */
function declaresPrivateFields(one: Constructor): boolean {
  const text = Function.prototype.toString.call(one)
  return /[;{}\s]#[A-Za-z_$][\w$]*\s*[=;(}\n]/.test(text) || /_?_classPrivate(Field|Method)/.test(text)
}
