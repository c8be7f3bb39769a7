/* Recorded by record_dropout.py. */
static const char tenth_kept[] =
    "ffbfafdfffffff7ff7fffff7fffe59efefbfff5bff5fff6fffffffafffffbffffbdffff3ffb";
enum { tenth_following = 155914 };
static const char half_kept[] =
    "1e2ea1017edf92780111da47567841248eba7c438e1bd6431113dea282c590e032937de0071";
enum { half_following = 155914 };
static const char most_kept[] =
    "000c2001208000280000080050004104008a040000020201001248020000902002902800000";
enum { most_following = 155914 };
static const char transposed_kept[] =
    "9bb480c55fea25001d0c6576c4ea6c105a2a022e2492e20bbe9595cd1953311bed761f60304";
static const char attention_kept[] =
    "1f2ea1017edf927b4111fac756f851e6aebffc438e1bd76b111bdea3aec790e";
enum { attention_following = 691622 };
static const double losses[] = { 0.0959495082, -0.38512674, -0.765346587,
                                 -2.37014723,  -11.5858345, -197.093765 };
static const double batch_first_losses[] = { -0.0626990646, -0.116479225, -0.601421893,
                                             -2.22112679,   -6.85196686,  -51.7710495 };
