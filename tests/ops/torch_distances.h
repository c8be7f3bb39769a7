/* Recorded from PyTorch by record_distances.py. */
/* clang-format off */
static const double mse_mean_y[] = {
    0x1.5c1670cb257fdp+1,
};
static const double mse_mean_da[] = {
    -0x1.3e4d5c6b7a898p-2, -0x1.3e4d5c6b7a89ap-2, -0x1.3e4d5c6b7a89dp-2,
    -0x1.3e4d5c6b7a898p-2, -0x1.3e4d5c6b7a89ap-2, 0x1.45894d10d4986p+1,
    -0x1.3e4d5c6b7a89ap-2, -0x1.3e4d5c6b7a898p-2, -0x1.3e4d5c6b7a89dp-2,
    -0x1.3e4d5c6b7a89ap-2, -0x1.3e4d5c6b7a898p-2, -0x1.3e4d5c6b7a898p-2,
};
static const double mse_mean_db[] = {
    0x1.3e4d5c6b7a898p-2, 0x1.3e4d5c6b7a89ap-2, 0x1.3e4d5c6b7a89dp-2,
    0x1.3e4d5c6b7a898p-2, 0x1.3e4d5c6b7a89ap-2, -0x1.45894d10d4986p+1,
    0x1.3e4d5c6b7a89ap-2, 0x1.3e4d5c6b7a898p-2, 0x1.3e4d5c6b7a89dp-2,
    0x1.3e4d5c6b7a89ap-2, 0x1.3e4d5c6b7a898p-2, 0x1.3e4d5c6b7a898p-2,
};
static const double l1_sum_y[] = {
    0x1.8d2d2d2d2d2d4p+3,
};
static const double l1_sum_da[] = {
    -0x1.70f0f0f0f0f0fp+1, -0x1.70f0f0f0f0f0fp+1, -0x1.70f0f0f0f0f0fp+1,
    -0x1.70f0f0f0f0f0fp+1, -0x1.70f0f0f0f0f0fp+1, 0x1.70f0f0f0f0f0fp+1,
    -0x1.70f0f0f0f0f0fp+1, -0x1.70f0f0f0f0f0fp+1, -0x1.70f0f0f0f0f0fp+1,
    -0x1.70f0f0f0f0f0fp+1, -0x1.70f0f0f0f0f0fp+1, -0x1.70f0f0f0f0f0fp+1,
};
static const double l1_sum_db[] = {
    0x1.70f0f0f0f0f0fp+1, 0x1.70f0f0f0f0f0fp+1, 0x1.70f0f0f0f0f0fp+1,
    0x1.70f0f0f0f0f0fp+1, 0x1.70f0f0f0f0f0fp+1, -0x1.70f0f0f0f0f0fp+1,
    0x1.70f0f0f0f0f0fp+1, 0x1.70f0f0f0f0f0fp+1, 0x1.70f0f0f0f0f0fp+1,
    0x1.70f0f0f0f0f0fp+1, 0x1.70f0f0f0f0f0fp+1, 0x1.70f0f0f0f0f0fp+1,
};
static const double smooth_l1_y[] = {
    0x1.1dd2873bf0a55p-2, 0x1.1dd2873bf0a56p-2, 0x1.1dd2873bf0a5bp-2,
    0x1.1dd2873bf0a55p-2, 0x1.1dd2873bf0a56p-2, 0x1.3ad2d2d2d2d2dp+2,
    0x1.1dd2873bf0a56p-2, 0x1.1dd2873bf0a55p-2, 0x1.1dd2873bf0a5bp-2,
    0x1.1dd2873bf0a56p-2, 0x1.1dd2873bf0a55p-2, 0x1.1dd2873bf0a55p-2,
};
static const double smooth_l1_da[] = {
    -0x1.3e4d5c6b7a899p+1, 0x1.85c1fe3a76b2fp-1, -0x1.1dd2873bf0a59p+0,
    0x1.10d4985c1fe3ap+1, 0x1.03d6a97c4f220p-2, 0x1.e1e1e1e1e1e1ep+0,
    0x1.9fbddbfa18366p+0, -0x1.03d6a97c4f21fp-2, -0x1.10d4985c1fe3dp+1,
    0x1.1dd2873bf0a56p+0, -0x1.85c1fe3a76b2dp-1, 0x1.3e4d5c6b7a899p+1,
};
static const double smooth_l1_db[] = {
    0x1.3e4d5c6b7a899p+1, -0x1.85c1fe3a76b2fp-1, 0x1.1dd2873bf0a59p+0,
    -0x1.10d4985c1fe3ap+1, -0x1.03d6a97c4f220p-2, -0x1.e1e1e1e1e1e1ep+0,
    -0x1.9fbddbfa18366p+0, 0x1.03d6a97c4f21fp-2, 0x1.10d4985c1fe3dp+1,
    -0x1.1dd2873bf0a56p+0, 0x1.85c1fe3a76b2dp-1, -0x1.3e4d5c6b7a899p+1,
};
static const double bce_plain_y[] = {
    -0x1.6a59844291680p-1,
};
static const double bce_plain_da[] = {
    0x1.aba5090afd4fbp-2, -0x1.ceb7e7258102cp-7, -0x1.bf69fdd46db7dp-2,
    0x1.2a3b9e3cde0a7p-2, -0x1.ee02e6d277d87p-4, 0x1.b8610949c27b4p-1,
    0x1.60b9bff1b0ee5p-3, -0x1.d9ecea790ac31p-3, 0x1.04e59704ee8c5p-1,
    0x1.f1d6a621f65ecp-5, -0x1.6606cb96c033fp-2, 0x1.841f2177939e8p-2,
};
static const double bce_plain_db[] = {
    0x1.1a21a930b83fcp-1, 0x1.cefc295683b0dp-6, -0x1.fa63cd36a0097p-2,
    0x1.a394857667584p-2, -0x1.cefc295683b0dp-4, -0x1.45894d10d4985p-1,
    0x1.12e5b88b5e310p-2, -0x1.046dd740aa138p-2, 0x1.4cc53db62ea72p-1,
    0x1.046dd740aa138p-3, -0x1.951ca42bb33acp-2, 0x1.046dd740aa138p-1,
};
static const double bce_weighted_y[] = {
    -0x1.22975b47800d0p+0, 0x1.354a381e427d6p+0, -0x1.ff36f4fdfc032p+2,
    -0x1.9ee1fd81f234fp-5, 0x1.1d69273e9157cp-3, 0x1.3257a67728920p+4,
    -0x1.38049e5cda867p-3, -0x1.f8d196cf3d4aap+0, -0x1.480cc69d46ba0p+1,
    0x1.e6aef5253a9a9p-2, -0x1.2878a68e7d202p+2, -0x1.9e608aea299d8p-2,
};
static const double bce_weighted_da[] = {
    0x1.1c4a9cc3efd79p+1, 0x1.33d40c0c9822ap-2, -0x1.c3b9021918e6ep+2,
    -0x1.12a38b21250e9p-1, 0x1.dc604d34080aap-4, 0x1.c0c4ee343abd1p+3,
    -0x1.656da9634ed5fp-2, -0x1.bca703a38b0ddp-2, 0x1.859e0c2a97b2dp+1,
    -0x1.8533218fba4d3p-3, -0x1.2baf025065b1ep+2, -0x1.5ce9f804ea309p+0,
};
static const double bce_weighted_db[] = {
    0x1.13ca373e2e1d2p+1, -0x1.886b581e3288fp-1, -0x1.a11d057c943eep+2,
    -0x1.1d30de375c10bp-2, 0x1.a100afad57715p-2, -0x1.3819c10eb3d1ep+3,
    -0x1.9e4838ce29564p-1, -0x1.c7da386f641b8p-1, 0x1.97af2d5b04a84p+1,
    -0x1.55309d4c7cdc7p+0, -0x1.ec0c7886979f7p+1, -0x1.f3fac3e7d951cp-1,
};
static const double kl_y[] = {
    0x1.fe7fd24f56714p-4, 0x1.1941f511e0d20p+0, 0x1.35ea6875ff208p+3,
    0x1.cba7d18c41dbep-3, 0x1.fa7dae1c4231ep+0, -0x1.80240f674ee11p-2,
    0x1.9de028c5983ccp-2, 0x1.c80be07a6ecfep+1, 0x1.523215f03c61cp-4,
    0x1.74a7bb9bd98c1p-1, 0x1.9aa03d15d6218p+2, 0x1.30833e063cbaep-3,
};
static const double kl_da[] = {
    -0x1.1c415aec2d394p-1, 0x1.7f887cbb49d89p+0, -0x1.35ea6875ff207p+4,
    0x1.b6c3197a3edd8p-1, 0x1.cc724130f65bep-1, -0x1.112ab59ecc00cp-3,
    0x1.2d001da6fa5abp+0, -0x1.9e966efaf05ffp+0, -0x1.42d2b7d9ae002p-2,
    0x1.74a7bb9bd98c3p+0, -0x1.17f8e3d4b4e85p+3, 0x1.531dcae409730p-1,
};
static const double kl_db[] = {
    0x1.2fd57b20c66c0p+2, -0x1.740aa137ce650p+0, 0x1.10d4985c1fe3bp+1,
    -0x1.046dd740aa138p+2, -0x1.f00e2c4a6886ap-2, -0x1.02a84df3993eep+3,
    -0x1.8cd8236eba054p+1, 0x1.f00e2c4a6886ap-2, 0x1.046dd740aa139p+2,
    -0x1.10d4985c1fe3ap+1, 0x1.740aa137ce64fp+0, -0x1.2fd57b20c66c1p+2,
};
static const double kl_log_y[] = {
    0x1.813ff00c61a4cp+4,
};
static const double kl_log_da[] = {
    -0x1.1c415aec2d394p-1, -0x1.3937ff76d1a41p+2, -0x1.592222e07f070p+5,
    -0x1.ffe39db94957cp-1, -0x1.1a05fb21307ebp+3, -0x1.a249661b28613p-3,
    -0x1.cce82d67af5aep+0, -0x1.fbdeae59ccdbep+3, -0x1.78a08128a0557p-2,
    -0x1.9f009c9078164p+1, -0x1.c949b863f4485p+4, -0x1.531dcae409730p-1,
};
static const double kl_log_db[] = {
    0x1.d42f68940e402p-1, 0x1.01f1e170e8e18p+3, 0x1.1c3a3ad6ff330p+6,
    0x1.a58e45a7a5cfcp+0, 0x1.d0825254c8583p+3, -0x1.c10b07f781efdp-1,
    0x1.7b920746542ccp+1, 0x1.a23ee9ef99a60p+4, 0x1.3629d3c71aa0dp-1,
    0x1.55c444b335b80p+2, 0x1.7897105250b40p+5, 0x1.1745b62534f54p+0,
};
static const double cosine_0_y[] = {
    0x1.ed63cd7391c90p-1, -0x1.f41c25daa19b7p-1, 0x1.ed63cd7391c90p-1,
    0x1.da3972875fea8p-1,
};
static const double cosine_0_da[] = {
    0x1.192d911f9ebc8p-5, -0x1.9a5d15b86cd41p-5, 0x1.d4d8e2c363510p-6,
    -0x1.924362807e6fcp-4, 0x1.b2c2256ef7302p-3, 0x1.e6df40d221a80p-8,
    0x1.c4bf8ca27643fp-4, -0x1.2ee3599d40e48p-2, 0x1.0033c9eaee880p-7,
    0x1.8b7ca9c8c28e4p-5, 0x1.416a1ed939498p-5, -0x1.19bb15a854d20p-4,
};
static const double cosine_0_db[] = {
    -0x1.65f05c892e578p-4, -0x1.8b7ca9c8c28e4p-5, -0x1.cc1e508158d00p-9,
    0x1.83572b139fcf8p-3, -0x1.f83268408f574p-3, -0x1.e6df40d221a80p-8,
    -0x1.8665314985260p-4, 0x1.148722bf7216dp-2, -0x1.051009e6fa360p-4,
    0x1.9a5d15b86cd41p-5, -0x1.f8f904a146e00p-7, 0x1.6aa8d57095a14p-3,
};
static const double cosine_1_y[] = {
    0x1.dc799443b27d6p-1, -0x1.965a023805738p-2, 0x1.e2fb88fd5e483p-1,
};
static const double cosine_1_da[] = {
    0x1.8d40439979fc8p-4, 0x1.3a2d97ad4e5dap-3, 0x1.adbb0d8ddfbcap-3,
    0x1.cbb63e20b3cf8p-4, -0x1.c8ab4e2d41cb7p-4, 0x1.03c55fe543a90p-3,
    0x1.49ab85b1cb620p-4, -0x1.75f3f43fef307p-3, 0x1.5079cca9de450p-6,
    0x1.c49ea4da1b666p-5, 0x1.708031afa3d52p-4, 0x1.ea3217f8c5c28p-6,
};
static const double cosine_1_db[] = {
    -0x1.58db1d808eb7ap-3, -0x1.38923514df7e4p-3, -0x1.18494ca930450p-3,
    -0x1.50215b39f0a82p-3, -0x1.2f6fa429d9052p-4, -0x1.22d6643c2609ap-3,
    0x1.bd9f90e68ae7bp-4, -0x1.226ec8f2087f0p-3, -0x1.a2fb21976b2a4p-5,
    -0x1.07d596e67b2b6p-4, -0x1.3e2d9d0140c1cp-4, -0x1.c05b24e428fecp-5,
};
static const double cosine_eps_y[] = {
    0x1.187c51eea7d2cp-1, -0x1.a39752297282ap-3, 0x1.398e54e28ca89p-1,
};
