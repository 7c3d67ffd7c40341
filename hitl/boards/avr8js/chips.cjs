"use strict";
// What differs between the processors: memory, ports, and the addresses of interrupts, in words.
// Sources: data sheets DS40002061B (ATmega328P, table 11-6) and DS40002211A (ATmega2560, table 14-1).
// pwm: which timer drives which pin: TCCRnA, the mask of its bits, the port's place in `ports`, bit.

const B = 0x25, D = 0x2b, E = 0x2e, G = 0x34, H = 0x102, L = 0x10b; // PORTx

// The timer `like` with other interrupts (capture, compare A to C, overflow), pins of compare A to C
// (port and bit each), pin of its external clock, and registers.
function timer(like, vectors, pins, clock, registers) {
  const [captureInterrupt, compAInterrupt, compBInterrupt, compCInterrupt, ovfInterrupt] = vectors;
  const [[compPortA, compPinA], [compPortB, compPinB], [compPortC, compPinC]] = pins;
  const [externalClockPort, externalClockPin] = clock;
  return {
    ...like, captureInterrupt, compAInterrupt, compBInterrupt, compCInterrupt, ovfInterrupt, compPortA,
    compPinA, compPortB, compPinB, compPortC, compPinC, externalClockPort, externalClockPin,
    ...registers,
  };
}

// The registers of a timer with 16 bits from the address `at`; its flags are in `TIFR`.
function wide(at, TIFR) {
  return {
    TCCRA: at, TCCRB: at + 1, TCCRC: at + 2, TCNT: at + 4, ICR: at + 6, OCRA: at + 8, OCRB: at + 10,
    OCRC: at + 12, OCFC: 8, OCIEC: 8, TIFR, TIMSK: TIFR + 0x39,
  };
}

function atmega328p(avr) {
  return {
    flash: 32768, sram: 2048, ramBegins: 0x100, eeprom: 1024, entry: 4, channels: 8,
    ports: [avr.portBConfig, avr.portCConfig, avr.portDConfig],
    usart: { rxc: 0x24, udre: 0x26, txc: 0x28 }, twi: 0x30, spi: 0x22,
    timers: [avr.timer0Config, avr.timer1Config, avr.timer2Config],
    watchdog: avr.watchdogConfig, eepromConfig: avr.eepromConfig, adc: avr.adcConfig,
    pwm: [
      [0x44, 0xc0, 2, 6], [0x44, 0x30, 2, 5], [0x80, 0xc0, 0, 1], [0x80, 0x30, 0, 2],
      [0xb0, 0xc0, 0, 3], [0xb0, 0x30, 2, 3],
    ],
  };
}

// Pin change interrupts of the ports J and K, external interrupts, and the ADC's channels 8 to 15 are
// not emulated.
function atmega2560(avr) {
  const plain = (letter) => {
    const { PIN, DDR, PORT } = avr[`port${letter}Config`];
    return { PIN, DDR, PORT, externalInterrupts: [] };
  };
  const none = [0, 0];
  return {
    flash: 262144, sram: 8192, ramBegins: 0x200, eeprom: 4096, entry: 5, channels: 8,
    ports: [..."ABCDEFGHJKL"].map((letter) => ({
      ...plain(letter),
      ...(letter === "B" ? { pinChange: { ...avr.PCINT0, pinChangeInterrupt: 0x12 } } : {}),
    })),
    usart: { rxc: 0x32, udre: 0x34, txc: 0x36 }, twi: 0x4e, spi: 0x30,
    timers: [
      timer(avr.timer0Config, [0, 0x2a, 0x2c, 0, 0x2e], [[B, 7], [G, 5], none], [D, 7], {}),
      timer(avr.timer1Config, [0x20, 0x22, 0x24, 0x26, 0x28], [[B, 5], [B, 6], [B, 7]], [D, 6],
        wide(0x80, 0x36)),
      timer(avr.timer2Config, [0, 0x1a, 0x1c, 0, 0x1e], [[B, 4], [H, 6], none], none, {}),
      timer(avr.timer1Config, [0x3e, 0x40, 0x42, 0x44, 0x46], [[E, 3], [E, 4], [E, 5]], [E, 6],
        wide(0x90, 0x38)),
      timer(avr.timer1Config, [0x52, 0x54, 0x56, 0x58, 0x5a], [[H, 3], [H, 4], [H, 5]], [H, 7],
        wide(0xa0, 0x39)),
      timer(avr.timer1Config, [0x5c, 0x5e, 0x60, 0x62, 0x64], [[L, 3], [L, 4], [L, 5]], [L, 2],
        wide(0x120, 0x3a)),
    ],
    watchdog: { ...avr.watchdogConfig, watchdogInterrupt: 0x18 },
    eepromConfig: { ...avr.eepromConfig, eepromReadyInterrupt: 0x3c },
    adc: { ...avr.adcConfig, adcInterrupt: 0x3a },
    pwm: [
      [0x44, 0xc0, 1, 7], [0x44, 0x30, 6, 5], [0x80, 0xc0, 1, 5], [0x80, 0x30, 1, 6],
      [0x80, 0x0c, 1, 7], [0xb0, 0xc0, 1, 4], [0xb0, 0x30, 7, 6], [0x90, 0xc0, 4, 3],
      [0x90, 0x30, 4, 4], [0x90, 0x0c, 4, 5], [0xa0, 0xc0, 7, 3], [0xa0, 0x30, 7, 4],
      [0xa0, 0x0c, 7, 5], [0x120, 0xc0, 10, 3], [0x120, 0x30, 10, 4], [0x120, 0x0c, 10, 5],
    ],
  };
}

module.exports = { atmega328p, atmega2560 };
