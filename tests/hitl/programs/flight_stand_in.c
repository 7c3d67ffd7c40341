/* Speaks the ports and the command line of Betaflight, and flies nothing: its motors follow the
 * throttle channel, the first by the roll rate. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct { double time, gyro[3], rest[14]; } state;
static struct __attribute__((packed)) { double time; uint16_t channels[16]; } radio;
static char settings[4000];

static int bound(int kind, int port) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, kind, 0);
    if (bind(fd, (struct sockaddr *)&here, sizeof here)) exit(1);
    return fd;
}

static void *listens(void *unused) {
    int fd = bound(SOCK_DGRAM, 9004);
    while (recv(fd, &radio, sizeof radio, 0) == sizeof radio);
    return unused;
}

static void answers(int fd, const char *text) {
    if (write(fd, text, strlen(text)) < 0) exit(2);
}

static void *command_line(void *unused) {
    int listening = bound(SOCK_STREAM, 5761);
    char line[200];
    listen(listening, 1);
    int fd = accept(listening, NULL, NULL);
    for (ssize_t n; (n = read(fd, line, sizeof line - 1)) > 0;) {
        line[n] = 0;
        if (strstr(settings, "set crash = ON") && !strncmp(line, "save", 4)) abort();
        if (!strncmp(line, "save", 4)) {
            FILE *file = fopen("eeprom.bin", "w");
            fputs(settings, file);
            fclose(file);
            exit(0);
        }
        if (strlen(settings) + (size_t)n < sizeof settings) strcat(settings, line);
        answers(fd, strstr(line, "nonsense") ? "###ERROR: INVALID NAME###\r\n# " : "\r\n");
        usleep(1000);
        if (!strstr(line, "nonsense")) answers(fd, "# ");
    }
    return unused;
}

int main(void) {
    FILE *file = fopen("eeprom.bin", "a"); /* Betaflight makes the file when it starts */
    fclose(file);
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(9002)}, raw = there;
    pthread_t threads[2];
    int fd = bound(SOCK_DGRAM, 9003);
    there.sin_addr.s_addr = raw.sin_addr.s_addr = htonl(INADDR_LOOPBACK), raw.sin_port = htons(9001);
    pthread_create(&threads[0], NULL, listens, NULL);
    pthread_create(&threads[1], NULL, command_line, NULL);
    while (recv(fd, &state, sizeof state, 0) == sizeof state) {
        float throttle = radio.channels[4] > 1700 ? (float)(radio.channels[2] - 1000) / 1000 : 0;
        float motors[4] = {throttle + (float)state.gyro[0], throttle, throttle, throttle};
        sendto(fd, motors, sizeof motors, 0, (struct sockaddr *)&there, sizeof there);
        sendto(fd, motors, sizeof motors, 0, (struct sockaddr *)&raw, sizeof raw);
    }
}
