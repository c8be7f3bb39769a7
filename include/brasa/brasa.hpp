/* brasa/brasa.hpp - Brasa for C++17: RAII owners, errors as exceptions, and options without
 * language extensions. Header only; use it together with any function of brasa.h.
 *
 *     auto model = brasa::own(br_linear_new(2, 1, true));
 *     auto adam = brasa::own(br_adam(
 *         br_base(model), brasa::options(br_adam_defaults()).set(&br_adam_options::lr, 0.05)));
 *     brasa::scope scope;
 *     br_tensor *y = brasa::check(br_forward(model.get(), x)); */
#ifndef BRASA_BRASA_HPP
#define BRASA_BRASA_HPP

#include <brasa/brasa.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace brasa
{

/* ---- Errors ---------------------------------------------------------------------------------- */

/* An error that was pending in the thread. */
class error : public std::runtime_error
{
  public:
    error(br_error code, const char *message) : std::runtime_error(message), code_(code)
    {
    }

    br_error code() const noexcept
    {
        return code_;
    }

  private:
    br_error code_;
};

/* Throws the thread's pending error and clears it; does nothing if there is none. */
inline void check()
{
    if (!br_failed())
        return;
    error pending(br_error_code(), br_error_message());
    br_clear_error();
    throw pending;
}

/* Returns `result`, or throws the pending error: br_tensor *y = check(br_add(a, b)). */
template <class T> T check(T result)
{
    check();
    return result;
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

/* A scope that ends with its block, even if an exception leaves the block. */
class scope
{
  public:
    scope() : scope_(br_scope_begin())
    {
    }
    ~scope()
    {
        br_scope_end(scope_);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

    /* Moves t to the outer scope and returns it. */
    br_tensor *keep(br_tensor *t)
    {
        return br_scope_return(scope_, t);
    }

  protected:
    explicit scope(br_scope *begun) : scope_(begun)
    {
    }

  private:
    br_scope *scope_;
};

/* A scope in which autograd records nothing. */
class no_grad : public scope
{
  public:
    no_grad() : scope(br_no_grad_begin())
    {
    }
};

/* A scope in which autograd records operations, even inside a no_grad scope. */
class enable_grad : public scope
{
  public:
    enable_grad() : scope(br_enable_grad_begin())
    {
    }
};

/* ---- Owners ---------------------------------------------------------------------------------- */

/* Frees an object that was passed to own(). A module is recognized by its member `base`, any other
 * object by its type. */
struct deleter {
    template <class M> auto operator()(M *module) const noexcept -> decltype(module->base, void())
    {
        br_module_free(module);
    }
    void operator()(br_optim *p) const noexcept
    {
        br_optim_free(p);
    }
    void operator()(br_scheduler *p) const noexcept
    {
        br_scheduler_free(p);
    }
    void operator()(br_averaged_model *p) const noexcept
    {
        br_averaged_model_free(p);
    }
    void operator()(br_named_list *p) const noexcept
    {
        br_named_list_free(p);
    }
    void operator()(br_dataset *p) const noexcept
    {
        br_dataset_free(p);
    }
    void operator()(br_loader *p) const noexcept
    {
        br_loader_free(p);
    }
    void operator()(br_vocab *p) const noexcept
    {
        br_vocab_free(p);
    }
    void operator()(br_tokenizer *p) const noexcept
    {
        br_tokenizer_free(p);
    }
    void operator()(br_safetensors *p) const noexcept
    {
        br_safetensors_close(p);
    }
    void operator()(br_auto_config *p) const noexcept
    {
        br_auto_config_free(p);
    }
    void operator()(br_attention *p) const noexcept
    {
        br_attention_free(p);
    }
    void operator()(br_profile *p) const noexcept
    {
        br_profile_free(p);
    }
    void operator()(char *text) const noexcept
    {
        br_free(text);
    }
};

template <class T> using owned = std::unique_ptr<T, deleter>;

/* Owns an object returned by a br_..._new() or similar function; throws if that function failed. */
template <class T> owned<T> own(T *made)
{
    owned<T> owner(made);
    check();
    return owner;
}

/* Holds a tensor beyond its scope. */
class tensor
{
  public:
    tensor() = default;
    explicit tensor(br_tensor *t) : t_(br_retain(t))
    {
        check();
    }
    tensor(const tensor &other) : t_(br_retain(other.t_))
    {
    }
    tensor(tensor &&other) noexcept : t_(std::exchange(other.t_, nullptr))
    {
    }
    tensor &operator=(tensor other) noexcept
    {
        std::swap(t_, other.t_);
        return *this;
    }
    ~tensor()
    {
        br_release(t_);
    }

    operator br_tensor *() const noexcept
    {
        return t_;
    }

  private:
    br_tensor *t_ = nullptr;
};

/* ---- Options --------------------------------------------------------------------------------- */

/* Options as a function argument, initialized with their defaults:
 * options(br_adam_defaults()).set(&br_adam_options::lr, 0.05).set(&br_adam_options::eps, 1e-6).
 * With the extensions of GCC and clang, BR_OPTIONS(br_adam, .lr = 0.05, .eps = 1e-6) is shorter. */
template <class O> class option_builder
{
  public:
    explicit option_builder(O defaults) : options_(defaults)
    {
    }

    template <class F, class V> option_builder &set(F O::*field, V value)
    {
        options_.*field = static_cast<F>(value);
        return *this;
    }

    operator const O *() const noexcept
    {
        return &options_;
    }

  private:
    O options_;
};

template <class O> option_builder<O> options(O defaults)
{
    return option_builder<O>(defaults);
}

} // namespace brasa

#endif
