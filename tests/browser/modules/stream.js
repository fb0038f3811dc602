// Assertions about the frames of stream.js; `check(name, found, wanted)` comes from the test.
export default async (base, check) => {
  const { Frames } = await import(`${base}/js/stream.js`);
  const text = 'retry: 900\nid: a.1\n\n: a comment\r\nevent: jobs_changed\ndata: {"a":\ndata:  1}\nid: a.2\n\nevent: draft\rdata: x\r\r\n';
  const whole = new Frames().feed(text);
  check("frames", whole, [{ name: "jobs_changed", data: '{"a":\n 1}', id: "a.2" }, { name: "draft", data: "x", id: null }]);
  for (let cut = 1; cut < text.length; cut += 1) {
    const frames = new Frames();
    const found = [...frames.feed(text.slice(0, cut)), ...frames.feed(text.slice(cut))];
    check(`frames cut at ${cut}`, [found, frames.lastId], [whole, "a.2"]);
  }
};
