/* tensor/errors.h - recording errors, checks of arguments, and option structs. */
#ifndef BR_TENSOR_ERRORS_H
#define BR_TENSOR_ERRORS_H

#include "tensor/debug.h"
#include "tensor/handles.h"
#include "tensor/storage.h"
#include "tensor/thread_state.h"

#include <stdarg.h>

/* Redeclared as cold: errors are off the usual path. */
__attribute__((cold)) void *br_fail(br_error code, const char *op, const char *format, ...)
    BR_PRINTF(3, 4);
/* Same as br_fail() with the message "op: path: message"; the path is escaped by
 * br_printable(). */
__attribute__((cold)) void *br__fail_file(br_error code, const char *op, const char *path,
                                          const char *format, ...) BR_PRINTF(4, 5);
/* Records a BR_ERROR_FORMAT "op: path: message" about the contents of a file. Returns false. */
__attribute__((cold)) bool br__refuse_file(const char *op, const char *path, const char *format,
                                           va_list args) BR_PRINTF(3, 0);
/* Same about a part of the file: "op: path: part "name": message". If the name is NULL, it is about
 * the file. */
__attribute__((cold)) bool br__refuse_part(const char *op, const char *path, const char *part,
                                           const char *name, const char *format, va_list args)
    BR_PRINTF(5, 0);
/* Sets the pending error to one that another thread has already raised and reported. */
void br__set_error(br_error code, const char *message);
/* Report the pending error, or a warning, to the error callback, and on stderr if BRASA_ERRORS
 * requests it (tensor/report.c). */
void br__notify_error(void);
void br__notify_warning(const char *message);
/* Mark the pending error as unhandled, as handled, and as left unhandled by a thread that ends. The
 * report at exit prints the earliest error that was never handled. */
void br__mark_error_unhandled(void);
void br__mark_error_handled(void);
void br__keep_error_at_thread_exit(void);
/* Same as br_shape_text(), but br__shape() also accepts a header, which is not a handle, and
 * br__shape_of() takes the sizes. */
const char *br__shape(const br_tensor *t);
const char *br__shape_of(int ndim, const int64_t *sizes);

/* Argument checks. All return false while an error is pending; if a check fails, they record an
 * error with the names of the operation and of the argument, and return false. br__required(): the
 * argument, a tensor or any other pointer, must not be NULL and, if it is a handle, must be live.
 */
#define br__required(op, name, argument) \
    br__required_handle(op, name, argument, BR_HANDLE_OF(argument))
bool br__required_handle(const char *op, const char *name, const void *argument, br_handle kind);
/* Same as br__required() for item i of an array, which the error calls "name i". */
#define br__required_item(op, name, i, item) \
    br__required_item_handle(op, name, i, item, BR_HANDLE_OF(item))
bool br__required_item_handle(const char *op, const char *name, int i, const void *item,
                              br_handle kind);
bool br__floating(const char *op, const char *name, const br_tensor *t);
/* The same for f32 and f64 alone, the dtypes of libraries that compute. */
bool br__f32_or_f64(const char *op, const char *name, const br_tensor *t);
bool br__has_dtype(const char *op, const char *name, const br_tensor *t, br_dtype dtype);
/* The slow path of br__compatible() and br__same_device(), which records the error. */
__attribute__((cold)) bool br__compare_operands(const char *op, const char *a_name,
                                                const br_tensor *a, const char *b_name,
                                                const br_tensor *b, bool dtypes);
/* Both must have the same dtype and be on the same device. */
static inline bool br__compatible(const char *op, const char *a_name, const br_tensor *a,
                                  const char *b_name, const br_tensor *b)
{
    return (a && b && a->dtype == b->dtype && a->mark == BR_MARK_LIVE && b->mark == BR_MARK_LIVE &&
            br__backend_of(a) == br__backend_of(b) && !br__failed()) ||
           br__compare_operands(op, a_name, a, b_name, b, true);
}
/* Both must be on the same device; their dtypes may differ. */
static inline bool br__same_device(const char *op, const char *a_name, const br_tensor *a,
                                   const char *b_name, const br_tensor *b)
{
    return (a && b && a->mark == BR_MARK_LIVE && b->mark == BR_MARK_LIVE &&
            br__backend_of(a) == br__backend_of(b) && !br__failed()) ||
           br__compare_operands(op, a_name, a, b_name, b, false);
}
/* Converts a dimension in -ndim .. ndim-1 to 0 .. ndim-1. A 0-d tensor allows -1 and 0. */
bool br__wrap_dim(const char *op, const char *name, const br_tensor *t, int64_t *dim);
/* Computes the shape that a and b broadcast to. They must be on the same device, unless one is a
 * header without a storage. Error messages call them a and b, or use the given names. */
bool br__broadcast(const char *op, const br_tensor *a, const br_tensor *b, int *ndim,
                   int64_t *sizes);
bool br__broadcast_named(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                         const br_tensor *b, int *ndim, int64_t *sizes);
/* Checks sizes and stores their product. Returns false and records an error on overflow or an
 * invalid size. */
bool br__check_sizes(const char *op, int ndim, const int64_t *sizes, br_dtype dtype,
                     int64_t *numel);
/* Computes row-major strides. */
void br__default_strides(int ndim, const int64_t *sizes, int64_t *strides);

/* Returns the path of a scope's owner; set by nn. */
extern char *(*br__owner_path)(const void *owner, char *buffer, size_t size);
/* Returns the class of a scope's owner; set by nn. */
extern const char *(*br__owner_class)(const void *owner);

#endif
