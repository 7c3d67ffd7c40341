"use strict";
// The timers of avr8js, looked at only when something can be seen of them.  By itself avr8js looks
// at each tick, which at clk/1 is each cycle: a sleeping board would run no faster than a busy one.
// A tick that changes nothing but the count is counted when the next one is looked at.

const UPWARDS = new Set([0, 2, 3]); // normal, CTC and fast PWM, as avr8js numbers its modes

// More than any instruction and interrupt takes: so near to what shows, each tick is looked at.  One
// look over a whole round of the counter could not tell it from none.
const NEAR = 16;

// Cycles until a flag or a pin may soon change; 0 where that is not known.
function quiet(timer, now) {
  const { tcnt, TOP, divider, lastCycle, ocrA, ocrB, ocrC, hasOCRC } = timer;
  if (!divider || timer.tcntUpdated || timer.updateDivider) return 0;
  if (!UPWARDS.has(timer.timerMode) || tcnt > TOP) return 0;
  let ticks = TOP + 1 - tcnt;
  if (ocrA > tcnt && ocrA <= TOP) ticks = Math.min(ticks, ocrA - tcnt);
  if (ocrB > tcnt && ocrB <= TOP) ticks = Math.min(ticks, ocrB - tcnt);
  if (hasOCRC && ocrC > tcnt && ocrC <= TOP) ticks = Math.min(ticks, ocrC - tcnt);
  return lastCycle + (ticks - Math.ceil(NEAR / divider)) * divider - now;
}

// Timers of `configs` on `cpu`, which schedules no tick of theirs that nobody would see.
function addTimers(avr, cpu, configs) {
  const timers = new Map();
  const schedule = cpu.addClockEvent.bind(cpu);
  cpu.addClockEvent = (callback, cycles) => {
    const timer = cycles > 0 ? timers.get(callback) : undefined;
    return schedule(callback, timer ? Math.max(cycles, quiet(timer, cpu.cycles)) : cycles);
  };
  for (const config of configs) {
    const timer = new avr.AVRTimer(cpu, config);
    timers.set(timer.count, timer);
    const { OCRA, OCRB, OCRC, ICR, TCNT, TCCRA, TCCRB } = config;
    for (const register of [OCRA, OCRB, OCRC, ICR, TCNT, TCCRA, TCCRB].filter((r) => r > 0)) {
      const write = cpu.writeHooks[register];
      cpu.writeHooks[register] = (value, old, address, mask) => {
        if (timer.divider) timer.count(false); // so far it counted as it was set up so far
        const done = write(value, old, address, mask);
        if (cpu.clearClockEvent(timer.count)) schedule(timer.count, 0); // what comes may be nearer
        return done;
      };
    }
  }
}

module.exports = { addTimers };
