/* brasa/brasa.hpp - Brasa for C++17: RAII owners, operators on tensors, errors as exceptions, and
 * options without language extensions. Header only; use it together with any function of brasa.h.
 *
 *     auto model = brasa::own(br_linear_new(2, 1, true));
 *     auto adam = brasa::own(br_adam(
 *         br_base(model), brasa::options(br_adam_defaults()).set(&br_adam_options::lr, 0.05)));
 *     brasa::scope scope;
 *     brasa::tensor error = brasa::tensor(br_forward(model.get(), x)) - y;
 *     brasa::tensor loss(br_mean(error * error)); */
#ifndef BRASA_BRASA_HPP
#define BRASA_BRASA_HPP

#include <brasa/brasa.h>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace brasa
{

/* ---- Errors ---------------------------------------------------------------------------------- */

/* An error that was pending in the thread. */
class error : public std::runtime_error
{
  public:
    error(br_error code, const std::string &message) : std::runtime_error(message), code_(code)
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
    void operator()(br_module *p) const noexcept
    {
        br_module_free(p);
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
    void operator()(br_encoding *p) const noexcept
    {
        br_encoding_free(p);
    }
    void operator()(br_token_ids *p) const noexcept
    {
        br_token_ids_free(p);
    }
    void operator()(br_decode_stream *p) const noexcept
    {
        br_decode_stream_free(p);
    }
    void operator()(br_cache *p) const noexcept
    {
        br_cache_free(p);
    }
    void operator()(br_python_random *p) const noexcept
    {
        br_python_random_free(p);
    }
    void operator()(br_recorder *p) const noexcept
    {
        br_recorder_end(p);
    }
    void operator()(br_safetensors *p) const noexcept
    {
        br_safetensors_close(p);
    }
    void operator()(br_auto_config *p) const noexcept
    {
        br_auto_config_free(p);
    }
    void operator()(br_generation_config *p) const noexcept
    {
        br_generation_config_free(p);
    }
    void operator()(br_sentence_transformer *p) const noexcept
    {
        br_sentence_transformer_free(p);
    }
    void operator()(br_attention *p) const noexcept
    {
        br_attention_free(p);
    }
    void operator()(br_check *p) const noexcept
    {
        br_check_close(p);
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

/* The same for functions that return void *:
 * own<br_hf_bert>(br_auto_model_load(dir, options, nullptr)). */
template <class M> owned<M> own(void *made)
{
    return own(static_cast<M *>(made));
}

/* ---- Numbers --------------------------------------------------------------------------------- */

namespace detail
{

/* Converts an integer or a bool to another type; throws an error if that cannot hold it. */
template <class To, class From> To to_integer(From value)
{
    To result = static_cast<To>(value);
    bool negative = false, expected = false;
    if constexpr (std::is_signed_v<To>)
        negative = result < 0;
    if constexpr (std::is_signed_v<From>)
        expected = value < 0;
    if (static_cast<From>(result) != value || negative != expected)
        throw error(BR_ERROR_ARGUMENT,
                    "an integer is out of range for the type of the index or option: " +
                        std::to_string(value));
    return result;
}

/* Returns true if an i64 can hold the integer, but a double might not. */
template <class N> bool needs_i64(N value)
{
    if constexpr (sizeof(N) < sizeof(std::int64_t)) {
        return false;
    } else {
        constexpr std::int64_t exact = std::int64_t{ 1 } << 53;
        if constexpr (std::is_signed_v<N>)
            return value >= exact || value <= -exact;
        else
            return value >= static_cast<N>(exact) && value <= static_cast<N>(INT64_MAX);
    }
}

} // namespace detail

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Holds a tensor beyond its scope. It converts to br_tensor *, so it can be passed to every
 * function of brasa.h. Its operators throw errors. */
class tensor
{
    template <class N> using number = std::enable_if_t<std::is_arithmetic_v<N>, tensor>;
    template <class N>
    using index = std::enable_if_t<std::is_integral_v<N> && !std::is_same_v<N, bool>, tensor>;

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

    /* Returns element i of the first dimension, a view; a negative i counts from the end. i is an
     * integer: a number with a fraction does not compile. */
    template <class N, class = index<N>> tensor operator[](N i) const
    {
        return tensor(br_select(t_, 0, detail::to_integer<std::int64_t>(i)));
    }
    /* Returns the value of a tensor of one element. Throws an error if it is an i64 that a double
     * would round. */
    double item() const
    {
        double value = check(br_item(t_));
        if (br_dtype_of(t_) == BR_I64 &&
            !(value < 0x1p63 && static_cast<std::int64_t>(value) == item_i64()))
            throw error(BR_ERROR_ARGUMENT,
                        "item: the i64 value is not exact as a double: call item_i64()");
        return value;
    }
    std::int64_t item_i64() const
    {
        return check(br_item_i64(t_));
    }

    /* These compute new tensors, and broadcast. */
    tensor operator-() const
    {
        return tensor(br_neg(t_));
    }
    friend tensor operator+(const tensor &a, const tensor &b)
    {
        return tensor(br_add(a, b));
    }
    friend tensor operator-(const tensor &a, const tensor &b)
    {
        return tensor(br_sub(a, b));
    }
    friend tensor operator*(const tensor &a, const tensor &b)
    {
        return tensor(br_mul(a, b));
    }
    friend tensor operator/(const tensor &a, const tensor &b)
    {
        return tensor(br_div(a, b));
    }
    template <class N> friend number<N> operator+(const tensor &a, N s)
    {
        return with_number(a, s, br_add_scalar, br_add);
    }
    template <class N> friend number<N> operator-(const tensor &a, N s)
    {
        return with_number(a, s, br_sub_scalar, br_sub);
    }
    template <class N> friend number<N> operator*(const tensor &a, N s)
    {
        return with_number(a, s, br_mul_scalar, br_mul);
    }
    template <class N> friend number<N> operator/(const tensor &a, N s)
    {
        return with_number(a, s, br_div_scalar, br_div);
    }
    template <class N> friend number<N> operator+(N s, const tensor &a)
    {
        return with_number(a, s, br_add_scalar,
                           [](br_tensor *b, br_tensor *first) { return br_add(first, b); });
    }
    template <class N> friend number<N> operator-(N s, const tensor &a)
    {
        return with_number(a, s, br_rsub_scalar,
                           [](br_tensor *b, br_tensor *first) { return br_sub(first, b); });
    }
    template <class N> friend number<N> operator*(N s, const tensor &a)
    {
        return with_number(a, s, br_mul_scalar,
                           [](br_tensor *b, br_tensor *first) { return br_mul(first, b); });
    }
    template <class N> friend number<N> operator/(N s, const tensor &a)
    {
        return with_number(a, s, br_rdiv_scalar,
                           [](br_tensor *b, br_tensor *first) { return br_div(first, b); });
    }

    /* These change the tensor's elements in place, as in PyTorch. */
    tensor &operator+=(const tensor &b)
    {
        return check(br_add_(t_, b)), *this;
    }
    tensor &operator-=(const tensor &b)
    {
        return check(br_sub_(t_, b)), *this;
    }
    tensor &operator*=(const tensor &b)
    {
        return check(br_mul_(t_, b)), *this;
    }
    tensor &operator/=(const tensor &b)
    {
        return check(br_div_(t_, b)), *this;
    }
    template <class N, class = number<N>> tensor &operator+=(N s)
    {
        return with_number(*this, s, br_add_scalar_, br_add_), *this;
    }
    template <class N, class = number<N>> tensor &operator-=(N s)
    {
        return with_number(*this, s, br_sub_scalar_, br_sub_), *this;
    }
    template <class N, class = number<N>> tensor &operator*=(N s)
    {
        return with_number(*this, s, br_mul_scalar_, br_mul_), *this;
    }
    template <class N, class = number<N>> tensor &operator/=(N s)
    {
        return with_number(*this, s, br_div_scalar_, br_div_), *this;
    }

  private:
    /* Calls by_double(a, s) or, for an integer that a double might round, by_tensor(a, b) with a
     * tensor b that holds the integer. */
    template <class N, class D, class T>
    static tensor with_number(const tensor &a, N s, D by_double, T by_tensor)
    {
        if constexpr (std::is_integral_v<N>) {
            if (a && br_dtype_of(a) == BR_I64 && detail::needs_i64(s)) {
                scope inner;
                std::int64_t value = static_cast<std::int64_t>(s);
                return tensor(by_tensor(a, br_from_i64(0, nullptr, &value)));
            }
        }
        return tensor(by_double(a, static_cast<double>(s)));
    }

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

    /* Sets a field. A floating-point value of an integer field does not compile, and an integer
     * that the field cannot hold throws an error. */
    template <class F, class V> option_builder &set(F O::*field, V value)
    {
        static_assert(!std::is_integral_v<F> || !std::is_floating_point_v<V>,
                      "this option is an integer: the value would be truncated");
        if constexpr (std::is_integral_v<F> && std::is_integral_v<V>)
            options_.*field = detail::to_integer<F>(value);
        else
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
