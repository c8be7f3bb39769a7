/* tensor/debug.c - the debug mode, described in debug.h.
 *
 * The registry is a hash table from addresses to records. A record contains the call stacks of a
 * handle's creation and of its end. Handles that have ended stay in the registry, and their memory
 * is not reused, until KEPT more of their kind have ended. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* dladdr(), dl_iterate_phdr(), program_invocation_short_name */
#endif
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#if __has_include(<execinfo.h>)
#    include <execinfo.h>
#else
#    define backtrace(frames, n) 0
#endif

enum {
    QUARANTINE_SIZE = 1 << 16, /* ended handles of a kind that are remembered */
    FRAMES = 8, /* frames in a record: the library's function first, then its callers */
    DEPTH = 32  /* frames that are searched for the outermost one of the library */
};

typedef struct stack {
    void *frames[FRAMES];
    int count;
} stack;

typedef enum ending { LIVE, FREED, SCOPE_ENDED } ending;

typedef struct record {
    struct record *next;  /* next in its bucket */
    struct record *newer; /* next in the queue of its kind, once its memory is kept */
    void *object;
    size_t size; /* size of the kept memory; 0: it is an object of br__handle_new() */
    br_handle kind;
    ending ending;
    stack made, ended;
    char what[96]; /* shape and dtype of an ended tensor, or class of a module */
} record;

/* Set before main() by the build option or the environment. */
#ifdef BRASA_DEBUG
bool br__debug = true;
#else
bool br__debug = false;
#endif

static struct {
    pthread_mutex_t lock;
    record **buckets;
    size_t n_buckets, count;
    struct {
        record *oldest, *newest;
        int64_t count;
    } quarantine[BR_HANDLES_END];
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Address range of the library's code; empty if it is linked statically. */
static uintptr_t code_begin, code_end;

/* ---- Call stacks ----------------------------------------------------------------------------- */

static int find_code(struct dl_phdr_info *image, size_t size, void *context)
{
    (void)size;
    bool *is_program = context;
    for (int i = 0; i < image->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &image->dlpi_phdr[i];
        uintptr_t begin = image->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
        if (part->p_type != PT_LOAD || (uintptr_t)find_code < begin || (uintptr_t)find_code >= end)
            continue;
        if (!*is_program) {
            code_begin = begin;
            code_end = end;
        }
        return 1;
    }
    *is_program = false; /* dl_iterate_phdr() reports the program first */
    return 0;
}

static bool is_library_frame(const void *frame)
{
    return (uintptr_t)frame >= code_begin && (uintptr_t)frame < code_end;
}

/* Stores the library's outermost frame, which is the public function that was called, and its
 * callers. If the library's address range is not known, stores the innermost frames. */
static __attribute__((noinline)) void capture(stack *s)
{
    enum { OWN = 2 }; /* this function and its caller */
    void *frames[DEPTH];
    int n = backtrace(frames, DEPTH), first = 0;
    while (first + 1 < n && is_library_frame(frames[first + 1]))
        first++;
    if (first == 0)
        first = br__min(n, OWN);
    s->count = br__min(n - first, FRAMES);
    memcpy(s->frames, frames + first, (size_t)s->count * sizeof *frames);
}

static size_t append(char *text, size_t n, const char *format, ...) BR_PRINTF(3, 4);
static size_t append(char *text, size_t n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int more = n < BR_DEBUG_PLACE ? vsnprintf(text + n, BR_DEBUG_PLACE - n, format, args) : 0;
    va_end(args);
    return n + (more > 0 ? (size_t)more : 0);
}

/* The program or shared library whose code contains an address. */
typedef struct image {
    uintptr_t address;
    uintptr_t base; /* what addr2line does not count; 0 for a program at a fixed address */
    const char *file;
} image;

static int find_image(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    image *found = context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD ||
            found->address - (info->dlpi_addr + part->p_vaddr) >= part->p_memsz)
            continue;
        const char *slash = strrchr(info->dlpi_name, '/');
        found->base = info->dlpi_addr;
        found->file = slash ? slash + 1 : info->dlpi_name;
        if (!*found->file) /* the program */
            found->file = program_invocation_short_name;
        return 1;
    }
    return 0;
}

/* Writes a frame of the program as "FILE+OFFSET" for `addr2line -e FILE OFFSET`, followed by its
 * function if that is exported. The offset points to the last byte of the call: the address in
 * the stack is the next instruction, which can belong to the next line. */
static size_t append_call(char *text, size_t n, uintptr_t frame, const char *function)
{
    image in = { .address = frame - 1 };
    if (!dl_iterate_phdr(find_image, &in))
        return append(text, n, "0x%" PRIxPTR, in.address);
    n = append(text, n, "%s+0x%" PRIxPTR, in.file, in.address - in.base);
    return function ? append(text, n, " (%s)", function) : n;
}

/* Writes "by br_randn() < program+0x2b (main) < ...". The library's own code has no symbol where
 * the compiler has moved a rare part of a public function out of it. If the library's address range
 * is not known, its internal functions come first, so all frames are shown. */
static const char *describe(const stack *s, char *text)
{
    const int shown = code_end > 0 && s->count > 4 ? 4 : s->count;
    size_t n = append(text, 0, "by ");
    for (int i = 0; i < shown; i++) {
        Dl_info info;
        const char *function = dladdr(s->frames[i], &info) ? info.dli_sname : NULL;
        n = append(text, n, i > 0 ? " < " : "");
        if (!is_library_frame(s->frames[i]))
            n = append_call(text, n, (uintptr_t)s->frames[i], function);
        else
            n = function ? append(text, n, "%s()", function) : append(text, n, "the library");
    }
    if (s->count == 0)
        append(text, n, "an unknown call");
    return text;
}

/* ---- The registry ---------------------------------------------------------------------------- */

static record **bucket_of(const void *object)
{
    uint64_t hash = (uint64_t)(uintptr_t)object * 0x9E3779B97F4A7C15u;
    return &all.buckets[(hash >> 20) & (all.n_buckets - 1)];
}

static record *find(const void *object)
{
    if (!all.buckets)
        return NULL;
    record *r = *bucket_of(object);
    while (r && r->object != object)
        r = r->next;
    return r;
}

/* Doubles the table when it is full. If memory runs out, the table stays the same and becomes
 * slower. */
static void reserve(void)
{
    size_t n = all.n_buckets;
    if (all.count < n)
        return;
    record **old = all.buckets, **buckets = calloc(n ? 2 * n : 1024, sizeof *buckets);
    if (!buckets)
        return;
    all.buckets = buckets;
    all.n_buckets = n ? 2 * n : 1024;
    for (size_t i = 0; i < n; i++)
        for (record *r = old[i], *next; r; r = next) {
            next = r->next;
            record **bucket = bucket_of(r->object);
            r->next = *bucket;
            *bucket = r;
        }
    free(old);
}

static void remove_record(record *r)
{
    record **link = bucket_of(r->object);
    while (*link != r)
        link = &(*link)->next;
    *link = r->next;
    all.count--;
}

void br__debug_register(br_handle kind, const void *object, const char *name)
{
    record *r = calloc(1, sizeof *r);
    pthread_mutex_lock(&all.lock);
    reserve();
    if (!r || !all.buckets) { /* without a record, checks would reject the handle */
        br__debug = false;
        pthread_mutex_unlock(&all.lock);
        free(r);
        return;
    }
    r->object = (void *)object;
    r->kind = kind;
    if (name)
        snprintf(r->what, sizeof r->what, "%s", name);
    capture(&r->made);
    record **bucket = bucket_of(object);
    r->next = *bucket;
    *bucket = r;
    all.count++;
    pthread_mutex_unlock(&all.lock);
}

static void free_quarantined(record *r)
{
    if (r->size > 0)
        br__object_free(r->object, r->size);
    else
        br_free(br__mark_of(r->object));
    free(r);
}

void br__debug_quarantine(void *object, size_t size)
{
    record *oldest = NULL;
    pthread_mutex_lock(&all.lock);
    record *r = find(object);
    if (r) {
        r->size = size;
        record **newest = &all.quarantine[r->kind].newest;
        *(*newest ? &(*newest)->newer : &all.quarantine[r->kind].oldest) = r;
        *newest = r;
        if (++all.quarantine[r->kind].count > QUARANTINE_SIZE) {
            oldest = all.quarantine[r->kind].oldest;
            all.quarantine[r->kind].oldest = oldest->newer;
            all.quarantine[r->kind].count--;
            remove_record(oldest);
        }
    }
    pthread_mutex_unlock(&all.lock);
    if (oldest)
        free_quarantined(oldest);
}

void br__debug_empty_quarantine(void)
{
    for (int kind = 0; kind < BR_HANDLES_END; kind++) {
        pthread_mutex_lock(&all.lock);
        record *r = all.quarantine[kind].oldest;
        for (record *k = r; k; k = k->newer)
            remove_record(k);
        all.quarantine[kind].oldest = all.quarantine[kind].newest = NULL;
        all.quarantine[kind].count = 0;
        pthread_mutex_unlock(&all.lock);
        while (r) {
            record *newer = r->newer;
            free_quarantined(r);
            r = newer;
        }
    }
    br__objects_flush();
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static void write_what(record *r)
{
    if (r->kind == BR_HANDLE_tensor && r->ending == LIVE) {
        const br_tensor *t = r->object;
        snprintf(r->what, sizeof r->what, "%s (%s)", br__shape(t), br_dtype_name(t->dtype));
    }
}

static void refuse_wrong_kind(const char *op, const char *name, br_handle kind, record *r)
{
    char made[BR_DEBUG_PLACE];
    write_what(r);
    br_fail(BR_ERROR_ARGUMENT, op, "%s must be %s, but it is %s%s%s, created %s", name,
            br__kind_name(kind), br__kind_name(r->kind), *r->what ? " " : "", r->what,
            describe(&r->made, made));
}

static void refuse_ended(const char *op, const char *name, const record *r)
{
    char made[BR_DEBUG_PLACE], ended[BR_DEBUG_PLACE];
    const bool by_scope = r->ending == SCOPE_ENDED;
    br_fail(BR_ERROR_STATE, op, "%s is %s%s%s that %s: created %s; ended %s%s", name,
            br__kind_name(r->kind), *r->what ? " " : "", r->what, br__how_ended(r->kind, by_scope),
            describe(&r->made, made), describe(&r->ended, ended), by_scope ? BR_HOW_TO_KEEP : "");
}

/* Raises the error after unlocking: a callback may use the library. */
static bool refuse(const char *op, const char *name, br_handle kind, record *r, record *copy)
{
    if (r)
        *copy = *r;
    pthread_mutex_unlock(&all.lock);
    if (!r)
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s must be %s, but it does not point to an object of the library", name,
                br__kind_name(kind));
    else if (copy->kind != kind)
        refuse_wrong_kind(op, name, kind, copy);
    else
        refuse_ended(op, name, copy);
    return false;
}

bool br__debug_is_live(const char *op, const char *name, br_handle kind, const void *object)
{
    record copy;
    pthread_mutex_lock(&all.lock);
    record *r = find(object);
    /* A list is a public struct, which a program may have made itself. */
    bool alive = r ? r->kind == kind && r->ending == LIVE : kind == BR_HANDLE_list;
    if (!alive)
        return refuse(op, name, kind, r, &copy);
    pthread_mutex_unlock(&all.lock);
    return true;
}

br_handle br__debug_kind_of(const void *object)
{
    pthread_mutex_lock(&all.lock);
    record *r = find(object);
    br_handle kind = r && r->ending == LIVE ? r->kind : BR_HANDLE_NONE;
    pthread_mutex_unlock(&all.lock);
    return kind;
}

const char *br__debug_place(const void *object, char text[BR_DEBUG_PLACE])
{
    pthread_mutex_lock(&all.lock);
    record *r = find(object);
    stack made = r ? r->made : (stack){ .count = 0 };
    pthread_mutex_unlock(&all.lock);
    return describe(&made, text);
}

static void set_ended(record *r, ending how)
{
    write_what(r);
    r->ending = how;
    capture(&r->ended);
}

bool br__debug_end(const char *op, const char *name, br_handle kind, const void *object)
{
    record copy;
    pthread_mutex_lock(&all.lock);
    record *r = find(object);
    if (!r || r->kind != kind || r->ending != LIVE)
        return refuse(op, name, kind, r, &copy);
    set_ended(r, FREED);
    pthread_mutex_unlock(&all.lock);
    return true;
}

/* The tensor becomes empty, so that code that reads it without a check reads nothing. */
void br__debug_quarantine_tensor(br_tensor *t)
{
    static br_storage none = { .backend = &br__cpu_backend };
    pthread_mutex_lock(&all.lock);
    record *r = find(t);
    if (r)
        set_ended(r, t->mark == BR_MARK_SCOPE_ENDED ? SCOPE_ENDED : FREED);
    pthread_mutex_unlock(&all.lock);
    *t = (br_tensor){
        .dtype = t->dtype, .contiguous = true, .mark = t->mark, .storage = &none, .slot = BR_NO_SLOT
    };
    br__debug_quarantine(t, sizeof *t);
}

/* ---- Switch ---------------------------------------------------------------------------------- */

void br__debug_set(bool on)
{
    bool is_program = true;
    dl_iterate_phdr(find_code, &is_program);
    br__objects_flush(); /* freed tensors are set aside in another way */
    br__debug = on;
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *requested = getenv("BRASA_DEBUG");
    br__debug_set(requested && *requested ? strcmp(requested, "0") != 0 : br__debug);
}
