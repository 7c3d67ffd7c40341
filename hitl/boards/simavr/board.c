/* An Arduino Uno on simavr, steered over stdin and stdout: hitl/boards/wire.py has the messages.
 * It ends when stdin does.  The counterpart of ../avr8js/board.cjs, message for message. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <simavr/avr_adc.h>
#include <simavr/avr_ioport.h>
#include <simavr/sim_core.h>
#include <simavr/sim_cycle_timers.h>
#include <simavr/sim_interrupts.h>

#include "usart.h"

enum { FLASH = 32768, FRAME = 1 << 20, RECORD = 12, MOST_EVENTS = 65536, INPUTS = 1 << 17 };
enum { BYTE_IN, LEVEL_IN, VOLTS_IN };
enum { BYTE_OUT, EDGE, LOST, RESTARTED };
enum { UNTIL_BYTE = 1 };

typedef struct {
    uint64_t cycle;
    uint8_t kind, which;
    uint16_t value;
} input_t;

static avr_t *avr;
static usart_t usart;
static input_t inputs[INPUTS];
static uint32_t next_input, input_count;
static uint8_t answer[5 + 8 + (MOST_EVENTS + 1024) * RECORD], body[FRAME];
static uint8_t *const events = answer + 13;
static uint32_t count;
static uint64_t stop_at;
static bool until_byte;
static const char ports[3] = {'B', 'C', 'D'};
static const uint8_t pin_registers[3] = {0x23, 0x26, 0x29}; /* PIN, then DDR, then PORT */
static uint8_t driven[3], given[3], levels[3]; /* by port; given: driven from outside */
static struct {
    avr_io_write_t c;
    void *param;
} inner[3][3];
/* which timer drives which pin: TCCRnA, its mask, port, bit */
static const uint8_t compare[6][4] = {
    {0x44, 0xc0, 2, 6}, {0x44, 0x30, 2, 5}, {0x80, 0xc0, 0, 1},
    {0x80, 0x30, 0, 2}, {0xb0, 0xc0, 0, 3}, {0xb0, 0x30, 2, 3},
};

static void put(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)from[i] << 8 * i;
    return value;
}

static void tell(uint64_t cycle, uint8_t kind, uint8_t which, uint16_t value) {
    uint8_t *at = events + RECORD * count++;
    put(at, cycle, 8);
    at[8] = kind;
    at[9] = which;
    put(at + 10, value, 2);
    if (count >= MOST_EVENTS && stop_at > avr->cycle) stop_at = avr->cycle;
    avr->run_cycle_count = 1;
}

static void lost(uint64_t cycle, uint8_t value) { tell(cycle, LOST, 0, value); }

static void stop_when_sent(frame_t *sending) {
    if (until_byte && !sending->told && sending->done < stop_at) stop_at = sending->done;
}

static void tell_sent(frame_t *sending) {
    if (!sending->told) tell(sending->done, BYTE_OUT, sending->bad ? 1 : 0, sending->value);
    sending->told = true;
}

/* ---- pins */
static bool timed(int port, int bit) {
    for (int i = 0; i < 6; i++)
        if (compare[i][2] == port && compare[i][3] == bit && avr->data[compare[i][0]] & compare[i][1])
            return true;
    return false;
}

static void on_port(avr_t *a, avr_io_addr_t address, uint8_t value, void *param) {
    int port = (int)(intptr_t)param, which = address - pin_registers[port];
    if (inner[port][which].c)
        inner[port][which].c(a, address, value, inner[port][which].param);
    else
        a->data[address] = value;
    uint8_t now = a->data[pin_registers[port] + 2] & a->data[pin_registers[port] + 1];
    for (int bit = 0; bit < 8; bit++)
        if ((now ^ driven[port]) >> bit & 1 && !timed(port, bit))
            tell(a->cycle, EDGE, (uint8_t)(port * 8 + bit), now >> bit & 1);
    driven[port] = now;
}

static void set_level(int pin, bool level) {
    int port = pin >> 3;
    uint8_t bit = (uint8_t)(1 << (pin & 7));
    avr_irq_t *irq = avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ(ports[port]), pin & 7);
    given[port] |= bit;
    levels[port] = (uint8_t)(level ? levels[port] | bit : levels[port] & ~bit);
    avr_ioport_external_t held = {
        .name = (unsigned char)ports[port], .mask = given[port], .value = levels[port]};
    avr_ioctl(avr, AVR_IOCTL_IOPORT_SET_EXTERNAL(ports[port]), &held);
    avr_raise_irq(irq, level);
}

/* After a reset: simavr takes no notice of a level that it believes to be there. */
static void set_levels_again(void) {
    for (int pin = 0; pin < 24; pin++)
        if (given[pin >> 3] >> (pin & 7) & 1) {
            bool level = levels[pin >> 3] >> (pin & 7) & 1;
            set_level(pin, !level);
            set_level(pin, level);
        }
}

/* simavr's ADC gives mV * 1023 / reference, the chip's (data sheet, 24.7) 1024. */
static void set_millivolts(int channel, uint32_t millivolts) {
    uint32_t raw = millivolts * 1024 / 5000;
    if (raw > 1023) raw = 1023;
    avr_raise_irq(avr_io_getirq(avr, AVR_IOCTL_ADC_GETIRQ, channel), (raw * 5000 + 1022) / 1023);
}

static const char *apply(const input_t *in) {
    if (in->kind == LEVEL_IN)
        set_level(in->which, in->value != 0);
    else if (in->kind == VOLTS_IN)
        set_millivolts(in->which, in->value);
    else if (!usart_put(&usart, in->cycle, (uint8_t)in->value))
        return "too many bytes on the line";
    return NULL;
}

/* ---- time */
static uint64_t next_due(void) {
    uint64_t due = usart_due(&usart);
    if (next_input < input_count && inputs[next_input].cycle < due) due = inputs[next_input].cycle;
    return due;
}

/* After interrupts are switched on, one more instruction runs first: so the data sheet, 7.7; simavr
 * lets up to three run.  It counts no cycles for the call, the data sheet four (7.7.1). */
static void interrupt(void) {
    bool just_enabled = avr->interrupt_state < 0;
    if (!avr->sreg[S_I]) return;
    avr->interrupt_state = avr_has_pending_interrupts(avr) != 0;
    if (just_enabled) return;
    while (avr->sreg[S_I] && avr_has_pending_interrupts(avr)) {
        avr->interrupt_state = 1;
        avr_service_interrupts(avr); /* one of its list, that may have been cleared since */
    }
    if (!avr->sreg[S_I]) avr->cycle += 4;
}

/* What is due at this instruction boundary; interrupts last, as the chip looks for them. */
static const char *boundary(void) {
    const char *wrong = NULL;
    uint64_t now = avr->cycle;
    while (!wrong && next_input < input_count && inputs[next_input].cycle <= now) {
        usart_service(&usart, inputs[next_input].cycle);
        wrong = apply(&inputs[next_input++]);
    }
    usart_service(&usart, now);
    usart_levels(&usart);
    interrupt();
    return wrong;
}

static const char *run(void) {
    const char *wrong = NULL;
    while (!wrong && avr->cycle < stop_at) {
        wrong = boundary();
        uint64_t due = next_due(), now = avr->cycle, until = due < stop_at ? due : stop_at;
        uint64_t room = until > now ? until - now : 1;
        if (avr->state == cpu_Running) {
            if (avr->run_cycle_count > room) avr->run_cycle_count = room;
            avr->pc = avr_run_one(avr);
            avr_cycle_timer_process(avr);
        } else if (avr->state == cpu_Sleeping) {
            uint64_t timer = avr_cycle_timer_process(avr);
            avr->cycle += timer && timer < room ? timer : room;
            avr_cycle_timer_process(avr);
        } else {
            wrong = "the firmware left the program memory or the RAM";
        }
    }
    return wrong;
}

static void (*core_reset)(avr_t *);
static bool asked; /* else it is the watchdog */

static void on_reset(avr_t *a) {
    if (core_reset) core_reset(a);
    usart_reset(&usart);
    memset(driven, 0, sizeof driven);
    if (!asked) tell(a->cycle, RESTARTED, 0, 0);
}

static void restart(void) {
    asked = true;
    avr_reset(avr);
    asked = false;
    set_levels_again();
    usart_begin(&usart);
}

/* ---- the pipe */
static void write_all(const uint8_t *bytes, size_t length) {
    while (length > 0) {
        ssize_t done = write(3, bytes, length);
        if (done <= 0) exit(4);
        bytes += done;
        length -= (size_t)done;
    }
}

static void read_all(uint8_t *bytes, size_t length) {
    while (length > 0) {
        ssize_t done = read(0, bytes, length);
        if (done <= 0) exit(0);
        bytes += done;
        length -= (size_t)done;
    }
}

static void reply(char kind, const void *payload, size_t length) {
    if (payload && length) memmove(answer + 5, payload, length);
    put(answer, length, 4);
    answer[4] = (uint8_t)kind;
    write_all(answer, 5 + length);
}

/* ---- requests: NULL, or what is wrong with it */
static const char *load(uint32_t length) {
    if (length > FLASH) return "image larger than the flash";
    memset(avr->flash, 0xff, FLASH);
    memcpy(avr->flash, body, length);
    avr->codeend = FLASH;
    restart();
    reply('K', NULL, 0);
    return NULL;
}

static const char *advance(uint32_t length) {
    uint64_t target = get(body, 8);
    until_byte = (body[8] & UNTIL_BYTE) != 0;
    input_count -= next_input;
    memmove(inputs, inputs + next_input, input_count * sizeof *inputs);
    next_input = 0;
    for (const uint8_t *at = body + 9; at + RECORD <= body + length; at += RECORD) {
        if (at[8] > VOLTS_IN || at[9] >= (at[8] == VOLTS_IN ? 8 : 24)) return "no such input";
        if (input_count == INPUTS) return "too many inputs";
        inputs[input_count++] = (input_t){get(at, 8), at[8], at[9], (uint16_t)get(at + 10, 2)};
    }
    count = 0;
    stop_at = target;
    if (usart.is_sending) stop_when_sent(&usart.sending);
    const char *wrong = run();
    if (wrong) return wrong;
    uint64_t reached = stop_at;
    if (usart.is_sending && usart.sending.done <= reached) tell_sent(&usart.sending);
    put(answer + 5, reached, 8);
    reply('A', NULL, 8 + (size_t)count * RECORD);
    return NULL;
}

static const char *handle(uint8_t kind, uint32_t length) {
    if (kind == 'L') return load(length);
    if (kind == 'A' && length >= 9) return advance(length);
    if (kind == 'R') {
        restart();
        reply('K', NULL, 0);
    } else if (kind == 'B' && length == 4) {
        usart.host_byte = (uint32_t)get(body, 4);
        reply('K', NULL, 0);
    } else if (kind == 'P' && length == 4) {
        uint32_t from = (uint32_t)get(body, 2), wanted = (uint32_t)get(body + 2, 2);
        if (from + wanted > (uint32_t)avr->ramend + 1) return "beyond the RAM";
        reply('P', avr->data + from, wanted);
    } else {
        return "no such request";
    }
    return NULL;
}

static void silent(avr_t *a, const int level, const char *format, va_list args) {
    (void)a;
    if (level <= LOG_ERROR) vfprintf(stderr, format, args);
}

static bool make(void) {
    avr_global_logger_set(silent);
    avr = avr_make_mcu_by_name("atmega328p");
    if (!avr || avr_init(avr)) return false;
    avr->frequency = 16000000;
    core_reset = avr->reset;
    avr->reset = on_reset;
    avr->vcc = avr->avcc = avr->aref = 5000;
    avr->run_cycle_limit = 1 << 20;
    usart.lost = lost;
    usart.started = stop_when_sent;
    usart.sent = tell_sent;
    if (!usart_attach(&usart, avr)) return false;
    for (int port = 0; port < 3; port++)
        for (int which = 0; which < 3; which++) {
            int io = AVR_DATA_TO_IO(pin_registers[port] + which);
            inner[port][which].c = avr->io[io].w.c;
            inner[port][which].param = avr->io[io].w.param;
            avr->io[io].w.c = on_port;
            avr->io[io].w.param = (void *)(intptr_t)port;
        }
    return true;
}

int main(void) {
    /* what the library prints must not end up among the answers */
    if (dup2(1, 3) != 3 || dup2(2, 1) != 1 || !make()) return 5;
    static const char hello[] = "rtsim-board 1 simavr " SIMAVR_VERSION;
    reply('H', hello, sizeof hello - 1);
    for (;;) {
        uint8_t head[5];
        read_all(head, 5);
        uint32_t length = (uint32_t)get(head, 4);
        if (length > FRAME) return 3;
        read_all(body, length);
        const char *wrong = handle(head[4], length);
        if (wrong) reply('E', wrong, strlen(wrong));
    }
}
