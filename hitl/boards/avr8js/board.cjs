"use strict";
// An Arduino board on avr8js, steered over stdin and stdout: hitl/boards/wire.py has the messages.
// It ends when stdin does.  Usage: node board.cjs FOLDER_OF_AVR8JS [PROCESSOR]

const fs = require("fs");
const path = require("path");
const chips = require("./chips.cjs");
const { reply, serve } = require("../pipe.cjs");
const { Spi } = require("./spi.cjs");
const { addTimers } = require("./timers.cjs");
const { Twi } = require("./twi.cjs");
const { Usart } = require("./usart.cjs");

const library = path.resolve(process.argv[2]);
const avr = require(library);
const version = JSON.parse(fs.readFileSync(path.join(library, "package.json"), "utf8")).version;

const processor = chips[process.argv[3] || "atmega328p"](avr);
const { flash: FLASH, sram: SRAM, ramBegins: RAM_BEGINS, channels: CHANNELS } = processor;
const PINS = 8 * processor.ports.length, RECORD = 12, MOST_EVENTS = 65536;
const BYTE_IN = 0, LEVEL_IN = 1, VOLTS_IN = 2, BUS_IN = 3;
const BYTE_OUT = 0, EDGE = 1, LOST = 2, RESTARTED = 3, BUS = 4;
const UNTIL_BYTE = 1;
const LAST = FLASH / 2 - 2; // words: where an instruction of two of them may end the flash
const LEFT = "the firmware left the program memory or the RAM";
const SREG = 95, SMCR = 0x53, SLEEP = 0x9588, I = 0x80;

let flash = new Uint16Array(FLASH / 2).fill(0xffff);
const eeprom = new avr.EEPROMMemoryBackend(processor.eeprom);
let cpu, usart, ports, adc, buses, restart = false, asleep = false;
let cycles = 0, stopAt = 0, untilByte = false, hostByte = 0;
let inputs = [], nextInput = 0;
const levels = new Array(PINS).fill(null), volts = new Array(CHANNELS).fill(0);
const events = Buffer.alloc(MOST_EVENTS * RECORD + 1024 * RECORD);
let count = 0;

function tell(cycle, kind, which, value) {
  const at = RECORD * count++;
  events.writeUInt32LE(cycle % 4294967296, at);
  events.writeUInt32LE(Math.floor(cycle / 4294967296), at + 4);
  events[at + 8] = kind;
  events[at + 9] = which;
  events.writeUInt16LE(value, at + 10);
  if (count >= MOST_EVENTS) stopAt = limit = Math.min(stopAt, cpu.cycles);
}

function build(sram) {
  cpu = new avr.CPU(flash, SRAM + RAM_BEGINS - 0x100); // avr8js begins the RAM at 0x100
  if (sram) cpu.data.set(sram, RAM_BEGINS);
  cpu.cycles = cycles;
  cpu.reset = () => { restart = true; limit = 0; };
  asleep = restart = false;
  ports = processor.ports.map((config) => new avr.AVRIOPort(cpu, config));
  addTimers(avr, cpu, processor.timers);
  const clock = new avr.AVRClock(cpu, 16e6, avr.clockConfig);
  new avr.AVRWatchdog(cpu, processor.watchdog, clock);
  new avr.AVREEPROM(cpu, eeprom, processor.eepromConfig);
  adc = new avr.AVRADC(cpu, processor.adc);
  volts.forEach((v, channel) => { adc.channelValues[channel] = v; });
  levels.forEach((level, pin) => ports[pin >> 3].setPin(pin & 7, level === true));
  const old = usart;
  usart = new Usart(cpu, processor.usart, {
    lost: (cycle, value) => tell(cycle, LOST, 0, value),
    started: stopWhenSent,
    sent: tellSent,
  });
  if (old) Object.assign(usart, { line: old.line, at: old.at, free: old.free });
  usart.hostByte = hostByte;
  usart.begin();
  buses = [new Twi(cpu, processor.twi, operated(0)), new Spi(avr, cpu, processor.spi, operated(1))];
  ports.forEach((_, port) => watch(port));
}

// Tells of an operation on a bus and stops, so that the answer comes before the operation ends.
let operations = 0;

function operated(which) {
  return (operation, byte) => {
    operations = (operations + 1) & 31;
    tell(cpu.cycles, BUS, which, (operations << 11) | (operation << 8) | byte);
    stopAt = Math.min(stopAt, cpu.cycles);
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

function watch(port) {
  const pin = processor.ports[port].PIN; // then DDR, then PORT
  let seen = 0;
  for (const register of [pin, pin + 1, pin + 2]) {
    const inner = cpu.writeHooks[register];
    cpu.writeHooks[register] = (value, old, address, mask) => {
      const done = inner(value, old, address, mask);
      const driven = cpu.data[pin + 2] & cpu.data[pin + 1];
      for (let changed = driven ^ seen, bit = 0; changed >> bit; bit++) {
        if ((changed >> bit) & 1 && !timed(port, bit)) {
          tell(cpu.cycles, EDGE, port * 8 + bit, (driven >> bit) & 1);
        }
      }
      seen = driven;
      pullUp(port, cpu.data[pin + 2] & ~cpu.data[pin + 1]);
      return done;
    };
  }
}

// An input that nothing drives from outside is high by its pull-up; avr8js has none.
function pullUp(port, pulled) {
  for (let bit = 0; bit < 8; bit++) {
    const high = (pulled >> bit) & 1;
    if (levels[port * 8 + bit] === null && ((ports[port].pinValue >> bit) & 1) !== high) {
      ports[port].setPin(bit, high !== 0);
    }
  }
}

function timed(port, bit) {
  return processor.pwm.some(([reg, mask, p, b]) => p === port && b === bit && cpu.data[reg] & mask);
}

function apply({ cycle, kind, which, value }) {
  if (kind === BYTE_IN) {
    usart.put(cycle, value & 0xff);
  } else if (kind === LEVEL_IN) {
    levels[which] = value !== 0;
    ports[which >> 3].setPin(which & 7, levels[which]);
  } else {
    volts[which] = value / 1000;
    adc.channelValues[which] = volts[which];
  }
}

// What is due at this instruction boundary; interrupts last, as the chip looks for them.
function boundary(enabled) {
  const now = cpu.cycles;
  while (nextInput < inputs.length && inputs[nextInput].cycle <= now) {
    usart.service(Math.min(now, inputs[nextInput].cycle));
    apply(inputs[nextInput++]);
  }
  usart.service(now);
  for (const bus of buses) bus.service(now);
  // after interrupts are switched on, one more instruction runs first
  if (cpu.nextInterrupt >= 0 && cpu.data[SREG] & I && enabled) {
    const interrupt = cpu.pendingInterrupts[cpu.nextInterrupt];
    avr.avrInterrupt(cpu, interrupt.address);
    cpu.cycles += processor.entry - 2; // avr8js counts two; see 7.7.1 of the data sheets
    if (!interrupt.constant) cpu.clearInterrupt(interrupt);
    asleep = false;
  }
}

function clockEvents() {
  let event = cpu.nextClockEvent;
  while (event && event.cycles <= cpu.cycles) {
    event.callback();
    cpu.nextClockEvent = event.next;
    if (cpu.clockEventPool.length < 10) cpu.clockEventPool.push(event);
    event = cpu.nextClockEvent;
  }
}

function nextDue() {
  const input = nextInput < inputs.length ? inputs[nextInput].cycle : Infinity;
  return Math.min(input, usart.due, buses[0].due, buses[1].due);
}

let wasEnabled = true;
let limit = 0; // up to here nothing but the program has a say; 0 once that has changed

function run(target) {
  stopAt = target;
  if (usart.sending) stopWhenSent(usart.sending);
  const chip = cpu, { data, progMem } = cpu, instruction = avr.avrInstruction;
  while (chip.cycles < stopAt) {
    if (nextDue() <= chip.cycles || chip.nextInterrupt >= 0) boundary(wasEnabled);
    if (asleep) {
      const timer = chip.nextClockEvent ? chip.nextClockEvent.cycles : Infinity;
      chip.cycles = Math.max(chip.cycles + 1, Math.min(timer, nextDue(), stopAt));
      clockEvents();
    } else {
      limit = Math.min(stopAt, nextDue());
      let before;
      do {
        before = data[SREG];
        const at = chip.pc;
        if (progMem[at] === SLEEP && data[SMCR] & 1) asleep = true;
        instruction(chip);
        // behind the last word avr8js goes on at the first, as the chip does; simavr ends there
        if (chip.pc === 0 && at >= LAST) throw new Error(LEFT);
        const event = chip.nextClockEvent;
        if (event !== null && event.cycles <= chip.cycles) clockEvents();
        if (chip.nextInterrupt >= 0 && data[SREG] & I) break;
      } while (chip.cycles < limit && !asleep);
      wasEnabled = (before & I) !== 0 || !(data[SREG] & I);
    }
    if (restart) {
      tell(chip.cycles, RESTARTED, 0, 0);
      cycles = chip.cycles;
      build(data.slice(RAM_BEGINS));
      return run(target);
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
    if (kind > BUS_IN || which >= [PINS, PINS, CHANNELS, buses.length][kind]) {
      throw new Error("no such input");
    }
    const cycle = Number(body.readBigUInt64LE(at)), value = body.readUInt16LE(at + 10);
    if (kind === BUS_IN) buses[which].answered(cycle, value);
    else inputs.push({ cycle, kind, which, value });
  }
  count = 0;
  const reached = run(target);
  const { sending } = usart;
  if (sending && sending.done <= reached) tellSent(sending); // the next slice completes it
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(reached));
  reply("A", Buffer.concat([head, events.subarray(0, count * RECORD)]));
}

function load(body) {
  if (body.length > FLASH) throw new Error("image larger than the flash");
  const bytes = Buffer.alloc(FLASH, 0xff);
  body.copy(bytes);
  flash = new Uint16Array(bytes.buffer, bytes.byteOffset, FLASH / 2);
  usart = undefined;
  cycles = cpu ? cpu.cycles : 0;
  build(null);
  reply("K", Buffer.alloc(0));
}

function handle(kind, body) {
  if (kind === "L") return load(body);
  if (kind === "A") return advance(body);
  if (kind === "R") {
    cycles = cpu.cycles;
    build(cpu.data.slice(RAM_BEGINS));
    return reply("K", Buffer.alloc(0));
  }
  if (kind === "B") {
    usart.hostByte = hostByte = body.readUInt32LE(0);
    return reply("K", Buffer.alloc(0));
  }
  if (kind === "P") {
    const from = body.readUInt16LE(0), length = body.readUInt16LE(2);
    return reply("P", Buffer.from(cpu.data.subarray(from, from + length)));
  }
  throw new Error("no such request");
}

build(null);
serve("avr8js", version, handle);
