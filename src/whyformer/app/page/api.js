/* Requests to the server that the page came from. */

const ROOT = "api/v1/";
const MOST_TRIES = 6;

/** What the server said no to, in its own words. */
export class Refusal extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export async function get(path, signal) {
  return (await checked(await fetch(ROOT + path, { signal }))).json();
}

export async function postJson(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return fetch(ROOT + path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/** A question about an input; a busy server is asked again after the time that it names. */
export async function ask(path, question, input, signal) {
  for (let tries = 1; ; tries++) {
    const response = await send(path, question, input, signal);
    if (response.status !== 503 || tries === MOST_TRIES) return checked(response);
    await pause(1000 * Number(response.headers.get("Retry-After") || 1), signal);
  }
}

/** The input itself goes along only when the server does not have it, or not any more. */
async function send(path, question, input, signal) {
  if (input.key) {
    const response = await postJson(path, { ...question, input: input.key }, signal);
    if (response.status !== 410) return response;
  }
  const whole = { ...question, ...input.beside };
  if (!input.file) {
    const content = input.example ? { example: input.example } : { text: input.text };
    return postJson(path, { ...whole, ...content }, signal);
  }
  const form = new FormData();
  form.append("file", input.file, input.name);
  for (const [name, value] of Object.entries(whole)) {
    for (const part of Array.isArray(value) ? value : [value]) {
      if (part !== null) form.append(name, part instanceof File ? part : String(part));
    }
  }
  return fetch(ROOT + path, { method: "POST", body: form, signal });
}

export async function checked(response) {
  if (response.ok) return response;
  let sentence = `the server answered ${response.status}`;
  try {
    sentence = (await response.json()).error || sentence;
  } catch {
    // An answer without a sentence keeps its number.
  }
  throw new Refusal(response.status, sentence);
}

/** A picture that is decoded before it is shown does not flicker. */
export async function decoded(document) {
  if (!document.image) return;
  const image = new Image();
  image.src = document.image.src;
  await image.decode();
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)));
  });
}
