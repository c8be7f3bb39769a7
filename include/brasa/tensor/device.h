/* brasa/tensor/device.h - devices: where a tensor's elements are and where operations run.
 *
 * br_device_of() returns a tensor's device. An operation runs on the device of its operands, and
 * its result is there, too; operands on different devices are an error. br_to_device() and
 * br_module_to_device() copy between devices. Elements on a device other than the host are read by
 * br_item(), br_at(), br_copy_out() and br_print(), which copy what they need; br_data() and its
 * relatives refuse them. */
#ifndef BRASA_TENSOR_DEVICE_H
#define BRASA_TENSOR_DEVICE_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum br_device_type {
    BR_CPU,     /* the host's processor and memory; its only index is 0 */
    BR_PRIVATE, /* a backend outside the library, such as the one that its tests use */
} br_device_type;

typedef struct br_device {
    br_device_type type;
    int index; /* from 0 */
} br_device;

/* Returns the number of devices of a type, 0 if there are none. */
BR_API int br_device_count(br_device_type type);
/* Returns a device's name for messages: "cpu", or its backend's name and its index, such as
 * "guarded:1". Returns NULL and records an error if there is no such device. */
BR_API const char *br_device_name(br_device device);

/* Returns the device of t's elements, or the CPU if t is NULL. */
BR_API br_device br_device_of(const br_tensor *t);

/* Sets the device on which functions that take no tensor, such as br_zeros(), br_randn() and the
 * constructors of modules, create tensors in this thread, and returns the one before. The default
 * is the CPU. If there is no such device, records an error and changes nothing. Random numbers are
 * those of the thread's generator on every device. */
BR_API br_device br_set_default_device(br_device device);
BR_API br_device br_get_default_device(void);

/* Returns when all work that was given to the device has been done. Functions that return elements
 * to the program wait by themselves. Returns false and records an error if there is no such device,
 * or if some of its work has failed. */
BR_API bool br_synchronize(br_device device);

#ifdef __cplusplus
}
#endif
#endif
