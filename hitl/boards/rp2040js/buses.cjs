"use strict";
// I2C and SPI of rp2040js as controllers of their buses, with the times of their clocks (RP2040 data
// sheet, sections 4.3.14 and 4.4.3) and with answers from the other end of the bus.

const START = 0, ADDRESS = 1, WRITE = 2, READ = 3, STOP = 4, TRANSFER = 5;
const BYTE_BITS = 9; // with the acknowledgement
const RESETS = 0x4000c, RESET_I2C0 = 3; // the place of the peripheral, and the bit of I2C0
const IDLE = 0; // as rp2040js numbers the states of I2C
const SPIKES = 0xa0; // IC_FS_SPKLEN
const READ_MODE = 1; // as rp2040js numbers the directions

// An operation that is complete when its time has passed and the other end of the bus has answered.
class Pending {
  // `now()` returns the cycle; `tell(operation, byte)` tells of an operation and returns its number.
  constructor(now, tell) {
    Object.assign(this, { now, tell, due: Infinity, finish: null });
  }

  begin(cycles, operation, byte, finish) {
    this.begun = this.now();
    this.cycles = Math.round(cycles);
    this.finish = finish;
    this.due = Infinity;
    this.number = this.tell(operation, byte);
  }

  // An answer: the byte, the acknowledgement in bit 8, lost arbitration in bit 9, then the number.
  answered(cycle, value) {
    if (this.finish === null || value >> 11 !== this.number) return;
    this.reply = { byte: value & 0xff, ack: (value & 0x100) !== 0, lost: (value & 0x200) !== 0 };
    // a bus that was held until `cycle` takes the whole time of the operation from then on
    this.due = Math.max(cycle, this.begun) + this.cycles;
  }

  drop() {
    this.due = Infinity;
    this.finish = null;
  }

  service(now) {
    if (this.due > now) return;
    const { finish, reply } = this;
    this.due = Infinity;
    this.finish = null;
    finish(reply);
  }
}

function i2c(part, now, tell) {
  const pending = new Pending(now, tell);
  const write = part.writeUint32.bind(part);
  part.writeUint32 = (offset, value) => {
    // rp2040js takes bit 0 of the value for the enable bit of the bus
    if (offset === SPIKES && !(part.enable & 1)) part.spikelen = Math.max(1, value & 0xff);
    else write(offset, value);
  };
  // high: HCNT + SPKLEN + 7 cycles, low: LCNT + 1 cycles
  const bit = () => part.sclHighPeriod + part.spikelen + 7 + part.sclLowPeriod + 1;
  const bits = (count, operation, byte, finish) => {
    pending.begin(count * bit(), operation, byte, (reply) => {
      if (reply.lost) part.arbitrationLost();
      else finish(reply);
    });
  };
  part.onStart = () => bits(1, START, 0, () => part.completeStart());
  part.onConnect = (address, mode) => {
    const byte = ((address & 0x7f) << 1) | (mode === READ_MODE ? 1 : 0);
    bits(BYTE_BITS, ADDRESS, byte, ({ ack }) => part.completeConnect(ack));
  };
  part.onWriteByte = (value) => bits(BYTE_BITS, WRITE, value, ({ ack }) => part.completeWrite(ack));
  part.onReadByte = (ack) => {
    bits(BYTE_BITS, READ, ack ? 1 : 0, ({ byte }) => part.completeRead(byte));
  };
  part.onStop = () => bits(1, STOP, 0, () => part.completeStop());
  return pending;
}

function spi(part, now, tell) {
  const pending = new Pending(now, tell);
  part.onTransmit = (value) => {
    if (part.dataBits !== 8) throw new Error(`SPI frames of ${part.dataBits} bits; use 8 bits`);
    const clock = part.clockDivisor * (1 + ((part.control0 >> 8) & 0xff));
    pending.begin(8 * clock, TRANSFER, value, ({ byte }) => part.completeTransmit(byte));
  };
  return pending;
}

// A reset by the register RESETS ends what the I2C bus is doing; rp2040js only keeps the register.
function resetWith(mcu, pendings) {
  const resets = mcu.peripherals[RESETS], write = resets.writeUint32.bind(resets);
  resets.writeUint32 = (offset, value) => {
    write(offset, value);
    if (offset !== 0) return;
    mcu.i2c.forEach((part, n) => {
      if (!(value & (1 << (RESET_I2C0 + n)))) return;
      pendings[n].drop();
      part.txFIFO.reset();
      part.rxFIFO.reset();
      Object.assign(part, {
        state: IDLE, busy: false, stop: false, pendingRestart: false, enable: 0, intRaw: 0, abortSource: 0,
      });
      part.checkInterrupts();
    });
  };
}

// The buses of `mcu` in the order of their numbers: I2C0, I2C1, SPI0, SPI1.
function busesOf(mcu, now, operated) {
  const pendings = [
    ...mcu.i2c.map((part, n) => i2c(part, now, operated(n))),
    ...mcu.spi.map((part, n) => spi(part, now, operated(2 + n))),
  ];
  resetWith(mcu, pendings);
  return pendings;
}

module.exports = { busesOf };
