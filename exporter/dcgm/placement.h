/* Where MIG instances are on their GPU. DCGM does not report it; the driver's
 * libnvidia-ml.so.1 does, where it is within reach. Each call opens the library
 * and lets go of it, since an open one can keep a GPU from being repartitioned. */
#ifndef GPUSCALE_DCGM_PLACEMENT_H
#define GPUSCALE_DCGM_PLACEMENT_H

typedef struct {
    unsigned instance_id;        /* in: GPU instance id */
    int start, size;             /* out: memory slices; -1 and 0 where not known */
    char uuid[96], profile[32];  /* out: empty where not known */
} placement;

/* Fills list for one GPU. Gives 0, or -1 where there is no library or it does
 * not know the GPU. */
int placement_read(const char *gpu_uuid, placement *list, int n);

#endif
