"use strict";
// An operation on a bus that is under way: it is complete when its time has passed and the other end
// of the bus has answered.

class Pending {
  // `tell(operation, byte)` tells of an operation and returns its number.
  constructor(tell) {
    this.tell = tell;
    this.done = Infinity;
    this.drop();
  }

  get active() {
    return this.finish !== null;
  }

  // Begin an operation at the cycle `now`; `finish(reply)` is called `cycles` later, or after the
  // other end has released the bus.
  begin(now, cycles, operation, byte, finish) {
    this.ends = now + cycles;
    this.cycles = cycles;
    this.finish = finish;
    this.done = Infinity;
    this.number = this.tell(operation, byte);
    this.now = now;
  }

  // An answer: the byte, the acknowledgement in bit 8, lost arbitration in bit 9, then the number.
  answered(cycle, value) {
    if (!this.active || value >> 11 !== this.number) return; // the operation was given up
    this.reply = { byte: value & 0xff, ack: (value & 0x100) !== 0, lost: (value & 0x200) !== 0 };
    // a bus that was held until `cycle` takes the whole time of the operation from then on
    this.done = cycle > this.now ? cycle + this.cycles : this.ends;
  }

  drop() {
    this.finish = null;
    this.done = Infinity;
  }

  service(now) {
    if (this.done > now) return;
    const { finish, reply } = this;
    this.drop();
    finish(reply);
  }
}

module.exports = { Pending };
