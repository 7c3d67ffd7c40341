"use strict";
// USART0 of the ATmega328P by its data sheet (DS40002061B, chapter 20): a transmitter with a buffer
// before its shift register, a receiver with two bytes of FIFO behind its shift register.
// ../simavr/usart.h is the same in C; both give the same bytes at the same cycles.

const UCSRA = 0xc0, UCSRB = 0xc1, UCSRC = 0xc2, UBRRL = 0xc4, UBRRH = 0xc5, UDR = 0xc6;
const RXC = 0x80, TXC = 0x40, UDRE = 0x20, FE = 0x10, DOR = 0x08, U2X = 0x02, MPCM = 0x01;
const RXCIE = 0x80, TXCIE = 0x40, UDRIE = 0x20, RXEN = 0x10, TXEN = 0x08;
const FIFO_BYTES = 2;
const SLACK = 0.045; // beyond so much between the two ends a frame of ten bits is not read

class Usart {
  // Told: `lost(cycle, value)`, `started(sending)`, `sent(sending)`, once for each byte.
  // hostByte: cycles of a byte at the other end of the line, 0: whatever the firmware has set
  // `vectors` has the addresses of the three interrupts, in words.
  constructor(cpu, vectors, { lost, started, sent }) {
    Object.assign(this, { cpu, lost, started, sent, hostByte: 0, line: [], at: 0, free: 0 });
    const irq = (address, flag, enable, constant) => ({
      address, constant, flagRegister: UCSRA, flagMask: flag, enableRegister: UCSRB,
      enableMask: enable,
    });
    this.rxc = irq(vectors.rxc, RXC, RXCIE, true);
    this.udre = irq(vectors.udre, UDRE, UDRIE, true);
    this.txc = irq(vectors.txc, TXC, TXCIE, false);
    this.fifo = [];
    this.waiting = null; // complete, in the receive shift register
    this.arriving = null; // {value, done, bad, heard}
    this.sending = null; // {value, done, told, bad}
    this.buffered = null; // the next to send
    this.last = 0;
    cpu.data[UCSRA] = UDRE;
    cpu.data[UCSRC] = 0x06;
    cpu.writeHooks[UCSRA] = (value) => {
      const kept = cpu.data[UCSRA] & ~(U2X | MPCM);
      cpu.data[UCSRA] = kept | (value & (U2X | MPCM));
      if (value & TXC) cpu.clearInterrupt(this.txc);
      return true;
    };
    cpu.writeHooks[UCSRB] = (value) => {
      cpu.data[UCSRB] = value;
      for (const one of [this.rxc, this.udre, this.txc]) cpu.updateInterruptEnable(one, value);
      if (!(value & RXEN)) this.flush();
      return true;
    };
    cpu.writeHooks[UDR] = (value) => this.write(value);
    cpu.readHooks[UDR] = () => this.read();
  }

  get byteCycles() {
    const { data } = this.cpu;
    const divisor = ((data[UBRRH] & 0x0f) << 8) | data[UBRRL];
    return (divisor + 1) * (data[UCSRA] & U2X ? 8 : 16) * 10;
  }

  get apart() {
    const own = this.byteCycles;
    return this.hostByte !== 0 && Math.abs(own - this.hostByte) > SLACK * own;
  }

  get due() {
    const sent = this.sending ? this.sending.done : Infinity;
    return this.arriving ? Math.min(sent, this.arriving.done) : sent;
  }

  // ---- the firmware's side
  write(value) {
    const { cpu } = this;
    if (!(cpu.data[UCSRB] & TXEN) || !(cpu.data[UCSRA] & UDRE)) return true; // lost, as on the chip
    if (this.sending === null) {
      this.send(value, cpu.cycles);
    } else {
      this.buffered = value;
      cpu.clearInterrupt(this.udre);
    }
    return true;
  }

  read() {
    const { cpu } = this;
    if (this.fifo.length > 0) this.last = this.fifo.shift();
    if (this.waiting !== null) {
      this.fifo.push(this.waiting);
      this.waiting = null;
    }
    cpu.data[UCSRA] &= ~(DOR | FE);
    if (this.fifo.length === 0) cpu.clearInterrupt(this.rxc);
    return this.last;
  }

  flush() {
    this.fifo = [];
    this.waiting = null;
    this.cpu.clearInterrupt(this.rxc);
    this.cpu.data[UCSRA] &= ~(DOR | FE);
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
    const start = Math.max(cycle, this.free);
    if (this.waiting !== null) { // a new start bit: what waits in the shift register is gone
      this.lost(start, this.waiting);
      this.waiting = null;
      this.cpu.data[UCSRA] |= DOR;
    }
    const bad = this.apart;
    this.free = start + (this.hostByte || this.byteCycles);
    const heard = (this.cpu.data[UCSRB] & RXEN) !== 0; // who listens later misses the start bit
    this.arriving = { value: bad ? 0 : value, done: this.free, bad, heard };
  }

  send(value, start) {
    this.sending = { value, done: start + this.byteCycles, told: false, bad: this.apart };
    this.started(this.sending);
  }

  // All that is complete at cycle `now`.
  service(now) {
    const { cpu } = this;
    while (this.due <= now) {
      if (this.sending && this.sending.done <= (this.arriving ? this.arriving.done : Infinity)) {
        const { done } = this.sending;
        this.sent(this.sending);
        this.sending = null;
        if (this.buffered !== null) {
          this.send(this.buffered, done);
          this.buffered = null;
          cpu.setInterruptFlag(this.udre);
        } else {
          cpu.setInterruptFlag(this.txc);
        }
      } else {
        const arriving = this.arriving;
        this.arriving = null;
        this.arrived(arriving);
        this.begin();
      }
    }
  }

  arrived({ value, bad, done, heard }) {
    const { cpu } = this;
    if (!heard || !(cpu.data[UCSRB] & RXEN)) {
      this.lost(done, value);
    } else if (this.fifo.length < FIFO_BYTES) {
      this.fifo.push(value);
      if (bad) cpu.data[UCSRA] |= FE;
      cpu.setInterruptFlag(this.rxc);
    } else {
      this.waiting = value;
    }
  }
}

module.exports = { Usart };
