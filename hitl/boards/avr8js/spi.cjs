"use strict";
// The SPI of avr8js as a controller of the bus: a byte takes eight of its clocks, and its answer comes
// from the other end of the bus.

const { Pending } = require("./pending.cjs");

const TRANSFER = 5;

function reversed(byte) {
  let out = 0;
  for (let bit = 0; bit < 8; bit++) out |= ((byte >> bit) & 1) << (7 - bit);
  return out;
}

class Spi {
  // `vector` is the interrupt's address in words; `tell(operation, byte)` tells of a transfer.
  constructor(avr, cpu, vector, tell) {
    const spi = new avr.AVRSPI(cpu, { ...avr.spiConfig, spiInterrupt: vector }, 16e6);
    this.pending = new Pending(tell);
    spi.onByte = (value) => {
      if (!spi.isMaster) return; // nobody gives it a clock
      const turned = spi.dataOrder === "lsbFirst";
      const byte = turned ? reversed(value) : value;
      this.pending.begin(cpu.cycles, spi.transferCycles, TRANSFER, byte, (reply) => {
        spi.completeTransfer(turned ? reversed(reply.byte) : reply.byte);
      });
    };
  }

  get due() {
    return this.pending.done;
  }

  answered(cycle, value) {
    this.pending.answered(cycle, value);
  }

  service(now) {
    this.pending.service(now);
  }
}

module.exports = { Spi };
