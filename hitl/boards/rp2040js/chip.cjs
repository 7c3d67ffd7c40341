"use strict";
// The RP2040 of rp2040js with the corrections that rtsim needs: cycles, SysTick, UART0 and sleep.
// Sources: RP2040 data sheet; Cortex-M0+ Technical Reference Manual (ARM DDI 0484), table 3-1.

const { busesOf } = require("./buses.cjs");
const { SysTick } = require("./systick.cjs");
const { Uart } = require("./uart.cjs");

const NS_PER_CYCLE = 8; // 125 MHz
const FLASH_BEGINS = 0x10000000, FLASH_BYTES = 2 << 20;
const VECTORS = 0x10000100; // behind the second boot stage, which does not run here
const UART0 = 0x40034, WATCHDOG = 0x40058, PWM_FUNCTION = 4, UART0_IRQ = 20;
const ENTRY_CYCLES = 15; // from an interrupt to its handler's first instruction, without wait states
const LEAVES = 0xbd, STORES_LINK = 0xb5; // POP {..., PC} and PUSH {..., LR}: the upper byte
const UART_REGISTERS = 0x0000, PWM_REGISTERS = 0x1000, PWM_BYTES = 0xa0, PWM_BASE = 0x40050000;
const VOLTS = 3.3;

class Chip {
  // `library` is the folder of rp2040js.  The chip begins at the cycle `cycles` with `image` in its
  // flash.  `events` has the functions lost, started and sent of a Uart, edge(pin, level), again(),
  // which the watchdog calls, and operated(bus), which returns the function that tells of operations.
  constructor(library, image, cycles, events) {
    const { RP2040, GPIOPinState } = require(library);
    const mcu = (this.mcu = new RP2040());
    this.core = mcu.core;
    this.clock = mcu.clock;
    this.cycles = cycles;
    this.clock.nanosCounter = cycles * NS_PER_CYCLE;
    this.changed = false; // an interrupt or a register may have changed what is due
    this.entered = 0;
    mcu.logger = quiet;
    mcu.onBreak = () => { throw new Error("the firmware has reached a trap or breakpoint"); };
    mcu.flash.set(image);
    this.pages = mcu.flash16;
    this.uart = new Uart({
      now: () => this.cycles,
      lost: events.lost,
      started: events.started,
      sent: events.sent,
      interrupt: (level) => mcu.setInterrupt(UART0_IRQ, level),
    });
    this.systick = new SysTick({
      now: () => this.cycles,
      pend: () => { this.core.pendingSystick = this.core.interruptsUpdated = true; },
    });
    this.watchdog = mcu.peripherals[WATCHDOG];
    this.watchdog.onWatchdogTrigger = events.again;
    mcu.peripherals[UART0] = this.uart;
    this.buses = busesOf(mcu, () => this.cycles, (bus) => {
      const tell = events.operated(bus);
      return (operation, byte) => {
        this.changed = true;
        return tell(operation, byte);
      };
    });
    this.correct();
    mcu.gpio.forEach((pin, number) => {
      pin.addListener((state) => {
        const driven = state === GPIOPinState.High || state === GPIOPinState.Low;
        if (driven && pin.functionSelect !== PWM_FUNCTION) {
          events.edge(number, state === GPIOPinState.High ? 1 : 0);
        }
      });
    });
    this.core.VTOR = VECTORS;
    this.core.reset();
  }

  // Replace what rp2040js does otherwise than the chip.
  correct() {
    const { mcu, core, systick } = this;
    // rp2040js enters a handler from within a sleeping instruction, even if PRIMASK forbids it
    mcu.setInterrupt = (irq, level) => {
      const bit = 1 << irq;
      core.pendingInterrupts = level ? core.pendingInterrupts | bit : core.pendingInterrupts & ~bit;
      core.interruptsUpdated = true;
      this.changed = true;
    };
    const enter = core.exceptionEntry.bind(core);
    core.exceptionEntry = (number) => {
      this.entered += ENTRY_CYCLES;
      enter(number);
    };
    const { ppb } = mcu;
    const read = ppb.readUint32.bind(ppb), write = ppb.writeUint32.bind(ppb);
    ppb.readUint32 = (offset) => (systick.handles(offset) ? systick.read(offset) : read(offset));
    ppb.writeUint32 = (offset, value) => {
      this.changed = true;
      if (systick.handles(offset)) systick.write(offset, value);
      else write(offset, value);
    };
  }

  // The cycle of the next event of a peripheral.
  get due() {
    const { nextAlarm } = this.clock;
    const alarm = nextAlarm ? Math.ceil(nextAlarm.nanos / NS_PER_CYCLE) : Infinity;
    let next = Math.min(alarm, this.uart.due, this.systick.due);
    for (const { due } of this.buses) next = Math.min(next, due);
    return next;
  }

  service(now) {
    this.uart.service(now);
    this.systick.service(now);
    for (const bus of this.buses) bus.service(now);
    this.clock.tick(now * NS_PER_CYCLE - this.clock.nanosCounter);
  }

  get asleep() {
    const { core } = this;
    if (!core.waiting) return false;
    // an enabled interrupt ends the sleep, also while PRIMASK keeps its handler from running
    const woken = (core.pendingInterrupts & core.enabledInterrupts) !== 0 || core.pendingSystick;
    if (woken) core.waiting = false;
    return !woken;
  }

  sleepUntil(cycle) {
    this.cycles = cycle;
    this.clock.nanosCounter = Math.min(cycle * NS_PER_CYCLE, this.alarmNanos);
  }

  get alarmNanos() {
    return this.clock.nextAlarm ? this.clock.nextAlarm.nanos : Infinity;
  }

  // One instruction, or the entry of an interrupt and its first instruction.
  step() {
    const { core } = this;
    this.changed = false;
    this.entered = 0;
    if (core.interruptsUpdated) core.checkForInterrupts();
    const at = (core.PC - FLASH_BEGINS) >>> 1;
    if (at >= FLASH_BYTES / 2 && core.PC >>> 20 !== 0x200) throw new Error(LEFT);
    const upper = at < FLASH_BYTES / 2 ? this.pages[at] >> 8 : 0;
    // rp2040js does not count the transfer of LR or PC
    const more = upper === STORES_LINK || upper === LEAVES ? 1 : 0;
    this.cycles += core.executeInstruction() + more + this.entered;
    const nanos = this.cycles * NS_PER_CYCLE;
    if (nanos < this.alarmNanos) this.clock.nanosCounter = nanos;
    else this.changed = true;
  }

  level(pin, level) {
    this.mcu.gpio[pin].setInputValue(level);
  }

  volts(channel, volts) {
    this.mcu.adc.channelValues[channel] = Math.min(4095, Math.floor((volts / VOLTS) * 4096));
  }

  // Registers by addresses of 16 bits: UART0 from 0; PWM, then one byte for each pin's function.
  peek(address, length) {
    const bytes = Buffer.alloc(0x2000);
    for (let offset = 0; offset < 0x4c; offset += 4) {
      bytes.writeUInt32LE(offset === 0 ? 0 : this.uart.readUint32(offset), UART_REGISTERS + offset);
    }
    for (let offset = 0; offset < PWM_BYTES; offset += 4) {
      const value = this.mcu.readUint32(PWM_BASE + offset) >>> 0;
      bytes.writeUInt32LE(value, PWM_REGISTERS + offset);
    }
    this.mcu.gpio.forEach((pin, number) => {
      bytes[PWM_REGISTERS + PWM_BYTES + number] = pin.functionSelect;
    });
    return bytes.subarray(address, address + length);
  }
}

const LEFT = "the firmware left the flash and the RAM";
const quiet = {
  debug() {},
  info() {},
  warn(part, text) { throw new Error(`${part}: ${text}`); },
  error(part, text) { throw new Error(`${part}: ${text}`); },
};

module.exports = { Chip, NS_PER_CYCLE };
