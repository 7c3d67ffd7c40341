"use strict";
// Random programs on two chips: timers as avr8js has them, and looked at only when it shows.
// node avr8js_timers.cjs FOLDER_OF_AVR8JS TIMERS_CJS SEED COUNT; prints the first difference.
const [, , library, ours, seed, count] = process.argv;
const avr = require(library);
const { addTimers } = require(ours);
const CONFIGS = [avr.timer0Config, avr.timer1Config, avr.timer2Config];
const FLAGS = [0x35, 0x36, 0x37];
let state = Number(seed) || 1;
function random(n) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 4294967296) * n);
}
function pick(list) { return list[random(list.length)]; }

function program() {
  const words = [];
  const store = (address, value) => {
    words.push(0xe000 | ((value & 0xf0) << 4) | (value & 0x0f)); // LDI r16, value
    words.push(0x9300, address); // STS address, r16
  };
  for (let k = 0; k < 400; k++) {
    const config = pick(CONFIGS), wide = config.bits === 16;
    const what = random(10);
    if (what === 0) store(config.TCCRA, random(256));
    else if (what === 1) store(config.TCCRB, (random(4) << 3) | pick([0, 1, 1, 1, 2, 2, 3]));
    else if (what < 4) {
      const register = pick([config.OCRA, config.OCRB, config.TCNT, config.ICR].filter((r) => r));
      if (wide) store(register + 1, pick([0, 0, 0, 1, random(256)]));
      store(register, random(256));
    } else if (what === 4) store(config.TIFR, random(8));
    else if (what === 5) words.push(0x9110, config.TCNT); // LDS r17, TCNT
    else for (let n = random(60); n > 0; n--) words.push(0); // NOP
  }
  return words;
}

function chip(words, add) {
  const cpu = new avr.CPU(new Uint16Array(16384), 2048);
  cpu.progMem.set(words);
  for (const port of [avr.portBConfig, avr.portCConfig, avr.portDConfig]) new avr.AVRIOPort(cpu, port);
  add(cpu);
  return cpu;
}

function step(cpu) {
  avr.avrInstruction(cpu);
  let event = cpu.nextClockEvent;
  while (event && event.cycles <= cpu.cycles) {
    event.callback();
    cpu.nextClockEvent = event.next;
    if (cpu.clockEventPool.length < 10) cpu.clockEventPool.push(event);
    event = cpu.nextClockEvent;
  }
}

for (let run = 0; run < Number(count); run++) {
  const words = program();
  const plain = chip(words, (cpu) => CONFIGS.forEach((c) => new avr.AVRTimer(cpu, c)));
  const quiet = chip(words, (cpu) => addTimers(avr, cpu, CONFIGS));
  while (plain.pc < words.length) {
    step(plain);
    step(quiet);
    const seen = (cpu) => [cpu.cycles, cpu.data[17], ...FLAGS.map((f) => cpu.data[f])].join(" ");
    if (seen(plain) !== seen(quiet)) {
      console.log(`run ${run}, word ${plain.pc}: ${seen(plain)} against ${seen(quiet)}`);
      process.exit(1);
    }
  }
}
