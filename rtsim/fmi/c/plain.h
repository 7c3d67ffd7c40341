/* A model exported by rtsim, as a plain C library.
 *
 * struct instance *m = model_name_new();
 * model_name_set(m, model_name_..., 1.0);      inputs and parameters
 * model_name_run(m, 0.1);                      to 0.1 s
 * double value = model_name_get(m, model_name_...);
 * model_name_free(m);
 *
 * Link your program with the library (LIBRARY.so), on Linux for example:
 *   cc main.c LIBRARY.so -Wl,-rpath,'$ORIGIN' -o main
 * Before the first run, model_name_set also sets states. model_name_reset returns to 0 s and to
 * all start values.
 *
 * Functions return 0, or -1 for a wrong reference, for a time before the last one, or if the model
 * cannot go on (a value is not finite). model_name_run returns 1 after a guard has ended the run.
 * Instances are independent of each other; use each instance in one thread at a time.
 */
#ifndef model_name_H
#define model_name_H

enum {
/* names */
};

struct instance;
struct instance *model_name_new(void); /* NULL without memory */
void model_name_free(struct instance *);
int model_name_reset(struct instance *);
int model_name_set(struct instance *, unsigned variable, double value);
double model_name_get(struct instance *, unsigned variable); /* nan for a wrong reference */
int model_name_run(struct instance *, double until_s);

#endif
