// Sends a file and tells how much of it has left: `fetch` does not say that.
import { csrfHeaders, Problem, renewCsrf } from "./api.js";

/**
 * Send a file as the body of a POST. All tries with one `key` happen once.
 * @param {string} path
 * @param {Blob} file
 * @param {{key: string, signal: AbortSignal, onProgress: (sentBytes: number) => void}} options
 * @returns {Promise<any>} the answer
 */
export async function upload(path, file, options) {
  try {
    return await send(path, file, options);
  } catch (problem) {
    if (problem.code !== "csrf_invalid") throw problem;
    await renewCsrf();
    return send(path, file, options);
  }
}

function send(path, file, { key, signal, onProgress }) {
  return new Promise((done, refuse) => {
    const request = new XMLHttpRequest();
    const headers = { Accept: "application/json", "Content-Type": "application/octet-stream", "Idempotency-Key": key, ...csrfHeaders() };
    request.open("POST", `/api/v1${path}`);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress(event.loaded);
    request.upload.onload = () => onProgress(file.size);
    request.onload = () => {
      const answer = parse(request.responseText);
      if (request.status < 400) done(answer);
      else refuse(new Problem({ ...answer, status: request.status }));
    };
    request.onerror = () => refuse(new Problem({}));
    request.onabort = () => refuse(new DOMException("The file was not sent.", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
