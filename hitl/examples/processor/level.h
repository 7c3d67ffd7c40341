#ifndef LEVEL_H
#define LEVEL_H

void level_init(void);
float level_step(float rate); /* called each 0.005 s */

#endif
