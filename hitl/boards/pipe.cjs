"use strict";
// The pipe of an emulator's adapter to rtsim: hitl/boards/wire.py has the messages.  It is synchronous,
// so that nothing runs between two requests.  The process ends when stdin does.

const fs = require("fs");

const FRAME = 1 << 20;

function write(bytes) {
  for (let at = 0; at < bytes.length;) at += fs.writeSync(1, bytes, at);
}

function reply(kind, body) {
  const frame = Buffer.alloc(5 + body.length);
  frame.writeUInt32LE(body.length);
  frame[4] = kind.charCodeAt(0);
  Buffer.from(body).copy(frame, 5);
  write(frame);
}

function read(length) {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length;) {
    let got = 0;
    try {
      got = fs.readSync(0, bytes, at, length - at, null);
    } catch (error) {
      if (error.code !== "EOF") throw error; // Windows says it so
    }
    if (got === 0) process.exit(0);
    at += got;
  }
  return bytes;
}

// Greet rtsim with the emulator's name and version, and call `handle(kind, body)` for each request.
function serve(name, version, handle) {
  reply("H", Buffer.from(`rtsim-board 1 ${name} ${version}`));
  for (;;) {
    const head = read(5);
    const length = head.readUInt32LE(0);
    if (length > FRAME) process.exit(3);
    const body = read(length);
    try {
      handle(String.fromCharCode(head[4]), body);
    } catch (error) {
      reply("E", Buffer.from(String(error.message).slice(0, 500)));
    }
  }
}

module.exports = { reply, serve };
