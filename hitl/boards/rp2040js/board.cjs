"use strict";
// A Raspberry Pi Pico on rp2040js, steered over stdin and stdout: hitl/boards/wire.py has the messages.
// It ends when stdin does.  Usage: node board.cjs FOLDER_OF_RP2040JS

const fs = require("fs");
const path = require("path");
const v8 = require("v8");
const vm = require("vm");
const { Chip } = require("./chip.cjs");
const { reply, serve } = require("../pipe.cjs");

const library = path.resolve(process.argv[2]);
const version = JSON.parse(fs.readFileSync(path.join(library, "package.json"), "utf8")).version;

const FLASH = 2 << 20, RECORD = 12, MOST_EVENTS = 65536, PINS = 30, CHANNELS = 4;
const BYTE_IN = 0, LEVEL_IN = 1, VOLTS_IN = 2, BUS_IN = 3;
const BYTE_OUT = 0, EDGE = 1, LOST = 2, RESTARTED = 3, BUS = 4;
const UNTIL_BYTE = 1;
const ACQUAINTING = 500000, SLICE = 25000; // cycles: 4 ms, 0.2 ms

v8.setFlagsFromString("--expose-gc");
const collect = vm.runInNewContext("gc");

let image = Buffer.alloc(0);
let chip, restart = false, stopAt = 0, limit = 0, untilByte = false, hostByte = 0;
let inputs = [], nextInput = 0;
const levels = new Array(PINS).fill(null), volts = new Array(CHANNELS).fill(0);
const events = Buffer.alloc((MOST_EVENTS + 1024) * RECORD);
let count = 0;

function tell(cycle, kind, which, value) {
  const at = RECORD * count++;
  events.writeUInt32LE(cycle % 4294967296, at);
  events.writeUInt32LE(Math.floor(cycle / 4294967296), at + 4);
  events[at + 8] = kind;
  events[at + 9] = which;
  events.writeUInt16LE(value, at + 10);
  if (count >= MOST_EVENTS) stopAt = limit = Math.min(stopAt, chip.cycles);
}

// A chip after a reset, which keeps the RAM `ram` and the line's bytes that are on their way.
function build(cycles, ram, reason) {
  const old = chip;
  restart = false;
  chip = new Chip(library, image, cycles, {
    lost: (cycle, value) => tell(cycle, LOST, 0, value),
    started: stopWhenSent,
    sent: tellSent,
    edge: (pin, level) => tell(chip.cycles, EDGE, pin, level),
    again: () => { restart = true; limit = 0; },
    operated,
  });
  if (ram) chip.mcu.sram.set(ram);
  chip.watchdog.reason = reason;
  volts.forEach((v, channel) => chip.volts(channel, v));
  levels.forEach((level, pin) => { if (level !== null) chip.level(pin, level); });
  if (old) Object.assign(chip.uart, { line: old.uart.line, at: old.uart.at, free: old.uart.free });
  chip.uart.hostByte = hostByte;
  chip.uart.begin();
}

// Tells of an operation on a bus and stops, so that the answer comes before the operation ends.
let operations = 0;

function operated(which) {
  return (operation, byte) => {
    operations = (operations + 1) & 31;
    tell(chip.cycles, BUS, which, (operations << 11) | (operation << 8) | byte);
    stopAt = Math.min(stopAt, chip.cycles);
    limit = 0;
    return operations;
  };
}

function stopWhenSent(sending) {
  if (untilByte && !sending.told) stopAt = Math.min(stopAt, sending.done);
  limit = 0;
}

function tellSent(sending) {
  if (!sending.told) tell(sending.done, BYTE_OUT, sending.bad ? 1 : 0, sending.value);
  sending.told = true;
}

function apply({ cycle, kind, which, value }) {
  if (kind === BYTE_IN) {
    chip.uart.put(cycle, value & 0xff);
  } else if (kind === LEVEL_IN) {
    levels[which] = value !== 0;
    chip.level(which, levels[which]);
  } else {
    volts[which] = value / 1000;
    chip.volts(which, volts[which]);
  }
}

// All that is due at this instruction boundary.
function boundary() {
  const now = chip.cycles;
  while (nextInput < inputs.length && inputs[nextInput].cycle <= now) {
    chip.uart.service(Math.min(now, inputs[nextInput].cycle));
    apply(inputs[nextInput++]);
  }
  chip.service(now);
}

function nextDue() {
  const input = nextInput < inputs.length ? inputs[nextInput].cycle : Infinity;
  return Math.min(input, chip.due);
}

function run(target) {
  stopAt = target;
  if (chip.uart.sending) stopWhenSent(chip.uart.sending);
  while (chip.cycles < stopAt) {
    if (nextDue() <= chip.cycles) boundary();
    if (chip.asleep) {
      chip.sleepUntil(Math.max(chip.cycles + 1, Math.min(nextDue(), stopAt)));
    } else {
      limit = Math.min(stopAt, nextDue());
      do {
        chip.step();
        if (chip.changed) limit = Math.min(limit, nextDue());
      } while (chip.cycles < limit && !chip.core.waiting);
    }
    if (restart) {
      tell(chip.cycles, RESTARTED, 0, 0);
      build(chip.cycles, chip.mcu.sram, chip.watchdog.reason);
      stopAt = target;
    }
  }
  return stopAt;
}

function advance(body) {
  const target = Number(body.readBigUInt64LE(0));
  untilByte = (body[8] & UNTIL_BYTE) !== 0;
  inputs = inputs.slice(nextInput);
  nextInput = 0;
  for (let at = 9; at + RECORD <= body.length; at += RECORD) {
    const kind = body[at + 8], which = body[at + 9];
    if (kind > BUS_IN || which >= [PINS, PINS, CHANNELS, chip.buses.length][kind]) {
      throw new Error("no such input");
    }
    const cycle = Number(body.readBigUInt64LE(at)), value = body.readUInt16LE(at + 10);
    if (kind === BUS_IN) chip.buses[which].answered(cycle, value);
    else inputs.push({ cycle, kind, which, value });
  }
  count = 0;
  const reached = run(target);
  const { sending } = chip.uart;
  if (sending && sending.done <= reached) tellSent(sending); // the next slice completes it
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(reached));
  return Buffer.concat([head, events.subarray(0, count * RECORD)]);
}

// Run another chip at large cycle numbers for a moment.  V8 compiles for the numbers that it has
// seen: code for integers of 32 bits is thrown away at 2^31 ns and again at 2^31 cycles, and the
// emulator is slow for some 20 ms in the middle of a run.
function acquaint() {
  const from = 2 ** 33, body = Buffer.alloc(9 + RECORD);
  try {
    build(from, null, 0);
    for (let begin = from; begin < from + ACQUAINTING; begin += SLICE) {
      body.writeBigUInt64LE(BigInt(begin + SLICE), 0);
      body.writeBigUInt64LE(BigInt(begin + SLICE / 2), 9); // a byte of value 0
      advance(body);
    }
  } catch (error) {
    // the run of the image itself will report it
  }
  chip = undefined;
  inputs = [];
  nextInput = count = 0;
  restart = false;
}

function load(body) {
  if (body.length > FLASH) throw new Error("image larger than the flash");
  image = Buffer.from(body);
  const cycles = chip ? chip.cycles : 0;
  chip = undefined;
  acquaint();
  build(cycles, null, 0);
  reply("K", Buffer.alloc(0));
}

function handle(kind, body) {
  if (kind === "L") return load(body);
  if (kind === "A") return reply("A", advance(body));
  if (kind === "R") {
    build(chip.cycles, chip.mcu.sram, 0);
    collect();
    return reply("K", Buffer.alloc(0));
  }
  if (kind === "B") {
    chip.uart.hostByte = hostByte = body.readUInt32LE(0);
    return reply("K", Buffer.alloc(0));
  }
  if (kind === "P") return reply("P", chip.peek(body.readUInt16LE(0), body.readUInt16LE(2)));
  throw new Error("no such request");
}

build(0, null, 0);
serve("rp2040js", version, handle);
