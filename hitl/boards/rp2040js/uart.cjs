"use strict";
// UART0 of the RP2040, a PL011 (RP2040 data sheet, section 4.2; ARM DDI 0183): byte times, FIFOs and
// interrupts.  rp2040js sends and receives bytes in no time.

const DR = 0x00, RSR = 0x04, FR = 0x18, IBRD = 0x24, FBRD = 0x28, LCR_H = 0x2c, CR = 0x30;
const IFLS = 0x34, IMSC = 0x38, RIS = 0x3c, MIS = 0x40, ICR = 0x44, DMACR = 0x48;
const RXFE = 1 << 4, TXFF = 1 << 5, RXFF = 1 << 6, TXFE = 1 << 7, BUSY = 1 << 3;
const FEN = 1 << 4, UARTEN = 1, TXE = 1 << 8, RXE = 1 << 9;
const RX = 1 << 4, TX = 1 << 5, RT = 1 << 6, FRAMING = 1 << 7, OVERRUN = 1 << 10;
const FIFO_BYTES = 32;
const LEVELS = [1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8];
const IDLE_BITS = 32; // after so many bit times without a byte, the receive timeout interrupt
const SLACK = 0.045; // with a larger difference of the two ends, a byte of ten bits is garbled
const KEPT = [RSR, IBRD, FBRD, LCR_H, CR, IFLS, IMSC, DMACR];

class Uart {
  // Calls `lost(cycle, value)`, `started(sending)` and `sent(sending)` once for each byte, and
  // `interrupt(level)`; `now()` returns the cycle.  hostByte: cycles of a byte of the host, 0: as
  // the firmware has set.
  constructor({ now, lost, started, sent, interrupt }) {
    Object.assign(this, { now, lost, started, sent, interrupt });
    Object.assign(this, { hostByte: 0, line: [], at: 0, free: 0 });
    this.registers = new Map([[CR, RXE | TXE], [IFLS, 0x12]]);
    this.raw = 0; // interrupts before the mask
    this.received = [];
    this.toSend = [];
    this.arriving = null; // {value, done, bad, heard}
    this.sending = null; // {value, done, told, bad}
    this.timeout = Infinity;
  }

  get(register) {
    return this.registers.get(register) || 0;
  }

  get on() {
    return (this.get(CR) & UARTEN) !== 0;
  }

  get depth() {
    return this.get(LCR_H) & FEN ? FIFO_BYTES : 1;
  }

  get bitCycles() {
    return 16 * (this.get(IBRD) + this.get(FBRD) / 64);
  }

  get byteCycles() {
    return Math.round(10 * this.bitCycles);
  }

  get apart() {
    const own = this.byteCycles;
    return this.hostByte !== 0 && Math.abs(own - this.hostByte) > SLACK * own;
  }

  get due() {
    const sent = this.sending ? this.sending.done : Infinity;
    const next = Math.min(sent, this.timeout);
    return this.arriving ? Math.min(next, this.arriving.done) : next;
  }

  // ---- the firmware's side
  readUint32(offset) {
    if (offset === DR) return this.read();
    if (offset === FR) {
      return (
        (this.received.length === 0 ? RXFE : 0) | (this.received.length >= this.depth ? RXFF : 0) |
        (this.toSend.length === 0 ? TXFE : 0) | (this.toSend.length >= this.depth ? TXFF : 0) |
        (this.sending || this.toSend.length > 0 ? BUSY : 0)
      );
    }
    if (offset === RIS) return this.raw;
    if (offset === MIS) return this.raw & this.get(IMSC);
    return this.get(offset);
  }

  writeUint32Atomic(offset, value, how) {
    if (offset === ICR) {
      this.raw &= ~value;
    } else if (offset === DR) {
      this.write(value & 0xff);
    } else if (KEPT.includes(offset)) {
      const old = this.get(offset);
      this.registers.set(offset, [value, old ^ value, old | value, old & ~value][how] & 0xffff);
      if (offset === CR && !this.on) this.flush();
    }
    this.signal();
  }

  write(value) {
    if (!this.on || !(this.get(CR) & TXE) || this.toSend.length >= this.depth) return;
    this.raw &= ~TX;
    if (this.sending === null) {
      this.send(value, this.now());
    } else {
      this.toSend.push(value);
    }
    this.refill();
  }

  // The transmit interrupt: the FIFO has become as empty as IFLS says, or the one byte has left.
  refill() {
    const most = this.depth === 1 ? 0 : FIFO_BYTES * LEVELS[Math.min(4, this.get(IFLS) & 7)];
    if (this.toSend.length <= most) this.raw |= TX;
  }

  read() {
    const value = this.received.length > 0 ? this.received.shift() : 0;
    if (this.received.length < this.trigger) this.raw &= ~RX;
    if (this.received.length === 0) {
      this.raw &= ~RT;
      this.timeout = Infinity;
    }
    this.signal();
    return value;
  }

  get trigger() {
    return this.depth === 1 ? 1 : FIFO_BYTES * LEVELS[Math.min(4, (this.get(IFLS) >> 3) & 7)];
  }

  flush() {
    this.received = [];
    this.toSend = [];
    this.raw = 0;
    this.timeout = Infinity;
  }

  signal() {
    this.interrupt((this.raw & this.get(IMSC)) !== 0);
  }

  // ---- the line
  put(cycle, value) {
    if (this.line.length - this.at >= 65536) throw new Error("too many bytes on the line");
    this.line.push({ cycle, value });
    this.begin();
  }

  begin() {
    if (this.arriving !== null || this.at >= this.line.length) return;
    const { cycle, value } = this.line[this.at++];
    if (this.at > 4096) {
      this.line = this.line.slice(this.at);
      this.at = 0;
    }
    const bad = this.apart;
    const heard = this.on && (this.get(CR) & RXE) !== 0; // who listens later misses the start bit
    this.free = Math.max(cycle, this.free) + (this.hostByte || this.byteCycles);
    this.arriving = { value: bad ? 0 : value, done: this.free, bad, heard };
  }

  send(value, start) {
    this.sending = { value, done: start + this.byteCycles, told: false, bad: this.apart };
    this.started(this.sending);
  }

  // All that is complete at cycle `now`, in the order of time.
  service(now) {
    while (this.due <= now) {
      const sent = this.sending ? this.sending.done : Infinity;
      const arrives = this.arriving ? this.arriving.done : Infinity;
      if (this.timeout < Math.min(sent, arrives)) {
        this.timeout = Infinity;
        this.raw |= RT;
      } else if (sent <= arrives) {
        this.sent(this.sending);
        this.sending = null;
        if (this.toSend.length > 0) this.send(this.toSend.shift(), sent);
        this.refill();
      } else {
        const arriving = this.arriving;
        this.arriving = null;
        this.arrived(arriving);
        this.begin();
      }
      this.signal();
    }
  }

  arrived({ value, bad, done, heard }) {
    if (!heard || !this.on) {
      this.lost(done, value);
    } else if (this.received.length >= this.depth) {
      this.lost(done, value);
      this.raw |= OVERRUN;
    } else {
      this.received.push(value);
      if (bad) this.raw |= FRAMING;
      if (this.received.length >= this.trigger) this.raw |= RX;
      this.timeout = this.depth > 1 ? done + Math.round(IDLE_BITS * this.bitCycles) : Infinity;
    }
  }
}

module.exports = { Uart };
