"use strict";
// SysTick of a Cortex-M0+ (ARMv6-M Architecture Reference Manual, B3.3): it counts from RVR down to 0,
// then begins again at RVR, in RVR + 1 cycles.  The SysTick of rp2040js takes RVR cycles.

const CSR = 0x10, RVR = 0x14, CVR = 0x18, CALIB = 0x1c;
const ENABLE = 1, TICKINT = 2, COUNTFLAG = 1 << 16;
const MASK = 0xffffff;

class SysTick {
  // `now()` returns the cycle; `pend()` is called when the count reaches 0 and TICKINT is set.
  constructor({ now, pend }) {
    Object.assign(this, { now, pend, control: 0, reload: 0, value: 0, from: 0, flag: false });
  }

  get on() {
    return (this.control & ENABLE) !== 0;
  }

  // The cycle at which the count reaches 0 next.
  get due() {
    return this.on && this.reload > 0 ? this.from + (this.value || this.reload + 1) : Infinity;
  }

  service(now) {
    while (this.due <= now) {
      this.from = this.due;
      this.value = 0;
      this.flag = true;
      if (this.control & TICKINT) this.pend();
    }
  }

  get count() {
    this.service(this.now());
    const passed = this.on ? this.now() - this.from : 0;
    return passed === 0 ? this.value : (this.value || this.reload + 1) - passed;
  }

  handles(offset) {
    return offset >= CSR && offset <= CALIB;
  }

  read(offset) {
    if (offset === CVR) return this.count;
    if (offset === RVR) return this.reload;
    if (offset === CALIB) return 0;
    this.service(this.now());
    const flag = this.flag ? COUNTFLAG : 0;
    this.flag = false;
    return this.control | flag;
  }

  write(offset, value) {
    const count = this.count;
    this.value = offset === CVR ? 0 : count;
    this.from = this.now();
    if (offset === CVR) this.flag = false;
    if (offset === RVR) this.reload = value & MASK;
    if (offset === CSR) this.control = value & 7;
  }
}

module.exports = { SysTick };
