/* USART0 of the ATmega328P by its data sheet (DS40002061B, chapter 20): a transmitter with a buffer
 * before its shift register, a receiver with two bytes of FIFO behind its shift register.
 * ../avr8js/usart.cjs is the same in JavaScript; both give the same bytes at the same cycles.
 * It takes the place of simavr's own USART and keeps that one's interrupt vectors. */
#ifndef RTSIM_USART_H
#define RTSIM_USART_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_io.h>

enum { UCSRA = 0xc0, UCSRB = 0xc1, UCSRC = 0xc2, UBRRL = 0xc4, UBRRH = 0xc5, UDR = 0xc6 };
enum { RXC = 0x80, TXC = 0x40, UDRE = 0x20, FE = 0x10, DOR = 0x08, U2X = 0x02, MPCM = 0x01 };
enum { RXCIE = 0x80, TXCIE = 0x40, UDRIE = 0x20, RXEN = 0x10, TXEN = 0x08 };
enum { FIFO_BYTES = 2, LINE_BYTES = 1 << 16 };
#define SLACK 0.045 /* beyond so much between the two ends a frame of ten bits is not read */
#define NEVER UINT64_MAX

typedef struct {
    uint8_t value;
    uint64_t done;
    bool told, bad, heard;
} frame_t;

typedef struct {
    avr_t *avr;
    avr_uart_t *vectors;
    void (*lost)(uint64_t cycle, uint8_t value);
    void (*started)(frame_t *sending);
    void (*sent)(frame_t *sending);
    uint32_t host_byte; /* cycles of a byte at the other end, 0: whatever the firmware has set */
    uint64_t free;
    uint32_t head, tail;
    struct {
        uint64_t cycle;
        uint8_t value;
    } line[LINE_BYTES];
    uint8_t fifo[FIFO_BYTES], filled, last;
    int waiting, buffered; /* -1: none */
    bool is_arriving, is_sending;
    frame_t arriving, sending;
} usart_t;

static uint64_t usart_byte_cycles(const usart_t *u) {
    const uint8_t *data = u->avr->data;
    uint32_t divisor = (uint32_t)(data[UBRRH] & 0x0f) << 8 | data[UBRRL];
    return (uint64_t)(divisor + 1) * (data[UCSRA] & U2X ? 8 : 16) * 10;
}

static bool usart_apart(const usart_t *u) {
    double own = (double)usart_byte_cycles(u);
    return u->host_byte != 0 && fabs(own - u->host_byte) > SLACK * own;
}

static uint64_t usart_due(const usart_t *u) {
    uint64_t sent = u->is_sending ? u->sending.done : NEVER;
    uint64_t arrived = u->is_arriving ? u->arriving.done : NEVER;
    return sent < arrived ? sent : arrived;
}

static void usart_level(usart_t *u, avr_int_vector_t *vector, uint8_t flag, uint8_t enable) {
    const uint8_t *data = u->avr->data;
    if (!(data[UCSRA] & flag && data[UCSRB] & enable)) {
        if (vector->pending) avr_clear_interrupt(u->avr, vector);
    } else if (!vector->pending) {
        avr_raise_interrupt(u->avr, vector);
    }
}

/* RXC and UDRE ask for as long as they stand: simavr's vectors ask once. */
static void usart_levels(usart_t *u) {
    usart_level(u, &u->vectors->rxc, RXC, RXCIE);
    usart_level(u, &u->vectors->udrc, UDRE, UDRIE);
}

static void usart_flag(usart_t *u, uint8_t flag, bool on) {
    uint8_t *data = u->avr->data;
    data[UCSRA] = (uint8_t)(on ? data[UCSRA] | flag : data[UCSRA] & ~flag);
}

/* ---- the line */
static void usart_begin(usart_t *u) {
    if (u->is_arriving || u->head == u->tail) return;
    uint64_t start = u->line[u->head % LINE_BYTES].cycle;
    uint8_t value = u->line[u->head++ % LINE_BYTES].value;
    if (start < u->free) start = u->free;
    if (u->waiting >= 0) { /* a new start bit: what waits in the shift register is gone */
        u->lost(start, (uint8_t)u->waiting);
        u->waiting = -1;
        usart_flag(u, DOR, true);
    }
    bool bad = usart_apart(u);
    u->free = start + (u->host_byte ? u->host_byte : usart_byte_cycles(u));
    bool heard = (u->avr->data[UCSRB] & RXEN) != 0; /* who listens later misses the start bit */
    u->arriving = (frame_t){bad ? 0 : value, u->free, false, bad, heard};
    u->is_arriving = true;
}

static bool usart_put(usart_t *u, uint64_t cycle, uint8_t value) {
    if (u->tail - u->head == LINE_BYTES) return false;
    u->line[u->tail % LINE_BYTES].cycle = cycle;
    u->line[u->tail++ % LINE_BYTES].value = value;
    usart_begin(u);
    return true;
}

static void usart_send(usart_t *u, uint8_t value, uint64_t start) {
    u->sending = (frame_t){value, start + usart_byte_cycles(u), false, usart_apart(u), true};
    u->is_sending = true;
    u->started(&u->sending);
}

static void usart_arrived(usart_t *u) {
    frame_t got = u->arriving;
    u->is_arriving = false;
    if (!got.heard || !(u->avr->data[UCSRB] & RXEN)) {
        u->lost(got.done, got.value);
    } else if (u->filled < FIFO_BYTES) {
        u->fifo[u->filled++] = got.value;
        if (got.bad) usart_flag(u, FE, true);
        usart_flag(u, RXC, true);
    } else {
        u->waiting = got.value;
    }
    usart_begin(u);
}

static void usart_done(usart_t *u) {
    uint64_t done = u->sending.done;
    u->sent(&u->sending);
    u->is_sending = false;
    if (u->buffered >= 0) {
        usart_send(u, (uint8_t)u->buffered, done);
        u->buffered = -1;
        usart_flag(u, UDRE, true);
    } else {
        avr_raise_interrupt(u->avr, &u->vectors->txc);
    }
}

/* All that is complete at cycle `now`. */
static void usart_service(usart_t *u, uint64_t now) {
    while (usart_due(u) <= now) {
        bool sent_first = !u->is_arriving || u->sending.done <= u->arriving.done;
        if (u->is_sending && sent_first)
            usart_done(u);
        else
            usart_arrived(u);
    }
}

/* ---- the firmware's side; each write ends simavr's run without looks at the clock */
static void usart_on_status(avr_t *avr, avr_io_addr_t a, uint8_t v, void *param) {
    usart_t *u = param;
    (void)a;
    avr->data[UCSRA] = (uint8_t)((avr->data[UCSRA] & ~(U2X | MPCM)) | (v & (U2X | MPCM)));
    if (v & TXC) avr_clear_interrupt(avr, &u->vectors->txc);
}

static void usart_on_control(avr_t *avr, avr_io_addr_t a, uint8_t v, void *param) {
    usart_t *u = param;
    (void)a;
    avr->data[UCSRB] = v;
    avr->run_cycle_count = 1;
    if (!(v & RXEN)) {
        u->filled = 0;
        u->waiting = -1;
        usart_flag(u, RXC | DOR | FE, false);
    }
    if (v & TXCIE && avr->data[UCSRA] & TXC) avr_raise_interrupt(avr, &u->vectors->txc);
    usart_levels(u);
}

static void usart_on_set(avr_t *avr, avr_io_addr_t a, uint8_t v, void *param) {
    (void)param;
    avr->data[a] = v;
}

static void usart_on_write(avr_t *avr, avr_io_addr_t a, uint8_t v, void *param) {
    usart_t *u = param;
    (void)a;
    avr->run_cycle_count = 1;
    if (!(avr->data[UCSRB] & TXEN) || !(avr->data[UCSRA] & UDRE)) return;
    avr_clear_interrupt(avr, &u->vectors->txc);
    if (u->is_sending) {
        u->buffered = v;
        usart_flag(u, UDRE, false);
    } else {
        usart_send(u, v, avr->cycle);
    }
    usart_levels(u);
}

static uint8_t usart_on_read(avr_t *avr, avr_io_addr_t a, void *param) {
    usart_t *u = param;
    (void)a;
    if (u->filled > 0) {
        u->last = u->fifo[0];
        memmove(u->fifo, u->fifo + 1, --u->filled);
    }
    if (u->waiting >= 0) {
        u->fifo[u->filled++] = (uint8_t)u->waiting;
        u->waiting = -1;
    }
    usart_flag(u, DOR | FE, false);
    if (u->filled == 0) usart_flag(u, RXC, false);
    usart_levels(u);
    avr->run_cycle_count = 1;
    return u->last;
}

static uint8_t usart_on_look(avr_t *avr, avr_io_addr_t a, void *param) {
    (void)param;
    return avr->data[a];
}

static void usart_reset(usart_t *u) {
    u->filled = 0;
    u->waiting = u->buffered = -1;
    u->is_arriving = u->is_sending = false;
    u->avr->data[UCSRA] = UDRE;
    u->avr->data[UCSRC] = 0x06;
}

static void usart_take(usart_t *u, avr_io_addr_t address, avr_io_write_t write, avr_io_read_t read) {
    int io = AVR_DATA_TO_IO(address);
    u->avr->io[io].w.c = write;
    u->avr->io[io].w.param = u;
    u->avr->io[io].r.c = read;
    u->avr->io[io].r.param = u;
}

static bool usart_attach(usart_t *u, avr_t *avr) {
    u->avr = avr;
    u->vectors = NULL;
    for (avr_io_t *io = avr->io_port; io; io = io->next)
        if (io->kind && strcmp(io->kind, "uart") == 0) u->vectors = (avr_uart_t *)io;
    if (!u->vectors) return false;
    usart_take(u, UCSRA, usart_on_status, usart_on_look);
    usart_take(u, UCSRB, usart_on_control, usart_on_look);
    usart_take(u, UCSRC, usart_on_set, usart_on_look);
    usart_take(u, UBRRL, usart_on_set, usart_on_look);
    usart_take(u, UBRRH, usart_on_set, usart_on_look);
    usart_take(u, UDR, usart_on_write, usart_on_read);
    usart_reset(u);
    return true;
}

#endif
