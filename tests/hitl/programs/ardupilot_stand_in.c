/* Speaks the JSON interface of ArduPilot, and flies nothing: after the line of JSON, its outputs
 * follow the throttle channel, the first by the roll rate.  Its socket has no declared port, and it
 * opens the port of the radio after the first state, as ArduPilot does. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct __attribute__((packed)) {
    uint16_t magic, rate;
    uint32_t count;
    uint16_t pwm[16];
} servos = {.magic = 18458, .rate = 400};
static uint16_t channels[16] = {1500, 1500, 1000, 1500};

static double number(const char *line, const char *key) {
    const char *at = strstr(line, key);
    if (!at) exit(3);
    return atof(at + strlen(key));
}

int main(int argc, char **argv) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(5501)}, there = here;
    char line[4000], frame[40] = "";
    float frame_class = 0, value;
    FILE *file = NULL;
    for (int k = 1; k + 1 < argc; k++)
        if (!strcmp(argv[k], "--defaults")) file = fopen(argv[k + 1], "r");
    while (file && fscanf(file, "%39s %f", frame, &value) == 2)
        if (!strcmp(frame, "FRAME_CLASS")) frame_class = value;
    int radio = socket(AF_INET, SOCK_DGRAM, 0), json = socket(AF_INET, SOCK_DGRAM, 0);
    if (!file) return 1;
    there.sin_port = htons(9002);
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct timeval patience = {1, 0};
    setsockopt(json, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (;;) {
        while (servos.count && recv(radio, channels, sizeof channels, MSG_DONTWAIT) == sizeof channels);
        sendto(json, &servos, sizeof servos, 0, (struct sockaddr *)&there, sizeof there);
        ssize_t n = recv(json, line, sizeof line - 1, 0);
        if (n <= 0) continue; /* the state is missing: send the outputs again */
        line[n] = 0;
        if (!servos.count && bind(radio, (struct sockaddr *)&here, sizeof here)) return 1;
        double rate = number(line, "\"gyro\":["), time = number(line, "\"timestamp\":");
        double down = number(strstr(line, "\"position\":[") + 12 + 2 * 26, "");
        for (int k = 0; k < 16; k++) servos.pwm[k] = channels[2];
        servos.pwm[0] = (uint16_t)(channels[2] + 1000 * rate);
        servos.pwm[1] = (uint16_t)(1000 + 100 * time);
        servos.pwm[2] = (uint16_t)(1500 - 10 * down);
        servos.pwm[3] = (uint16_t)(1000 + 100 * frame_class);
        servos.count++;
    }
}
