"use strict";
// The two-wire interface (I2C) as a controller of the bus, by the data sheet DS40002061B, chapter 22:
// status codes of tables 22-3 and 22-4, times of the SCL clock, loss of arbitration.  avr8js completes
// operations in no time, sets TWINT after a STOP, and does not forget an operation when TWEN is cleared.

const { Pending } = require("./pending.cjs");

const TWBR = 0xb8, TWSR = 0xb9, TWDR = 0xbb, TWCR = 0xbc;
const TWINT = 0x80, TWEA = 0x40, TWSTA = 0x20, TWSTO = 0x10, TWWC = 0x08, TWEN = 0x04, TWIE = 0x01;
const KEPT = TWEA | TWSTA | TWSTO | TWEN | TWIE;
const START = 0, ADDRESS = 1, WRITE = 2, READ = 3, STOP = 4;
const IDLE = 0xf8, STARTED = 0x08, AGAIN = 0x10, LOST = 0x38;
const WRITTEN = { addressed: [0x20, 0x18], sent: [0x30, 0x28] }; // without and with acknowledgement
const TO_READ = [0x48, 0x40], RECEIVED = [0x58, 0x50];
const PRESCALERS = [1, 4, 16, 64];
const BYTE_BITS = 9; // with the acknowledgement

class Twi {
  // `vector` is the interrupt's address in words; `tell(operation, byte)` tells of an operation.
  constructor(cpu, vector, tell) {
    this.cpu = cpu;
    this.pending = new Pending(tell);
    this.owner = false; // between a START and a STOP
    this.interrupt = {
      address: vector, constant: true, flagRegister: TWCR, flagMask: TWINT, enableRegister: TWCR,
      enableMask: TWIE,
    };
    cpu.data[TWSR] = IDLE;
    cpu.data[TWDR] = 0xff;
    cpu.writeHooks[TWCR] = (value) => this.control(value);
    cpu.writeHooks[TWSR] = (value) => {
      cpu.data[TWSR] = (cpu.data[TWSR] & 0xf8) | (value & 3);
      return true;
    };
    cpu.writeHooks[TWDR] = (value) => {
      if (cpu.data[TWCR] & TWINT) cpu.data[TWDR] = value;
      else cpu.data[TWCR] |= TWWC;
      return true;
    };
  }

  get due() {
    return this.pending.done;
  }

  get bit() {
    const { data } = this.cpu;
    return 16 + 2 * data[TWBR] * PRESCALERS[data[TWSR] & 3];
  }

  get status() {
    return this.cpu.data[TWSR] & 0xf8;
  }

  answered(cycle, value) {
    this.pending.answered(cycle, value);
  }

  service(now) {
    this.pending.service(now);
  }

  control(value) {
    const { cpu } = this;
    const flag = cpu.data[TWCR] & TWINT & ~value; // writing a one clears it
    const collided = cpu.data[TWCR] & TWWC;
    cpu.data[TWCR] = (value & KEPT) | flag | collided;
    if (!flag) cpu.clearInterrupt(this.interrupt);
    if (value & TWINT) cpu.data[TWCR] &= ~TWINT;
    cpu.updateInterruptEnable(this.interrupt, value);
    if (!(value & TWEN)) {
      this.pending.drop();
      this.owner = false;
      cpu.data[TWSR] = IDLE | (cpu.data[TWSR] & 3);
    } else if (!flag && !this.pending.active) {
      this.next(value);
    }
    return true;
  }

  next(value) {
    if (value & TWSTO) return this.stop();
    if (value & TWSTA) return this.start();
    const { status } = this, byte = this.cpu.data[TWDR];
    if (status === STARTED || status === AGAIN) {
      const codes = byte & 1 ? TO_READ : WRITTEN.addressed;
      return this.bits(BYTE_BITS, ADDRESS, byte, (reply) => this.tellBits(reply, codes));
    }
    if (WRITTEN.addressed.includes(status) || WRITTEN.sent.includes(status)) {
      return this.bits(BYTE_BITS, WRITE, byte, (reply) => this.tellBits(reply, WRITTEN.sent));
    }
    if (status === TO_READ[1] || status === RECEIVED[1]) {
      const ack = value & TWEA ? 1 : 0;
      return this.bits(BYTE_BITS, READ, ack, (reply) => {
        this.cpu.data[TWDR] = reply.byte;
        this.tellBits({ ...reply, ack: ack === 1 }, RECEIVED);
      });
    }
    if (status === LOST) this.set(IDLE, false);
    return undefined;
  }

  bits(count, operation, byte, finish) {
    this.cpu.data[TWCR] &= ~TWWC;
    this.pending.begin(this.cpu.cycles, count * this.bit, operation, byte, finish);
  }

  start() {
    this.bits(1, START, 0, () => {
      this.set(this.owner ? AGAIN : STARTED, true);
      this.owner = true;
    });
  }

  stop() {
    this.bits(1, STOP, 0, () => {
      this.owner = false;
      this.cpu.data[TWCR] &= ~TWSTO;
      this.set(IDLE, false);
      if (this.cpu.data[TWCR] & TWSTA) this.start();
    });
  }

  tellBits({ ack, lost }, codes) {
    if (lost) this.owner = false;
    this.set(lost ? LOST : codes[ack ? 1 : 0], true);
  }

  set(status, flag) {
    const { cpu } = this;
    cpu.data[TWSR] = status | (cpu.data[TWSR] & 3);
    if (flag) cpu.setInterruptFlag(this.interrupt);
  }
}

module.exports = { Twi };
