/* Recorded from PyTorch by record_norms.py. */
static const double rms_norm_1[] = {
    0x1.d17cf9c0b58cbp-1,  0x1.600cc57e62958p-2,  -0x1.eed35f8b3dc3fp+1, 0x1.ecdeae1756d14p-3,
    0x1.16b4c7040e0bbp+0,  0x1.760d91d648bedp+1,  0x1.32b872bccb25ap-2,  0x1.4704a781c200ap+0,
    0x1.b225135867127p+1,  -0x1.f92fcc09c710cp-6, 0x1.49d65980ab662p+1,  0x1.df403346fd6aep+0,
    -0x1.a7d973d7922d5p-2, 0x1.fd08ebc06301ap+0,  0x1.56d1c357c54a5p+0,  -0x1.3ff6fa962f9aap-2,
    -0x1.473c978df6811p+1, 0x1.613535de4f25cp-2,  -0x1.299c9975ba73dp+0, -0x1.5e21a57b71f1bp+0,
    -0x1.e16e4389bcac6p-2, -0x1.41aee9a303e2ep-1, -0x1.6912b2a74d813p+0, -0x1.1702cfde5ecc9p+0,
};
static const double rms_norm_1_dx[] = {
    -0x1.6e9cc010f5b35p+0, -0x1.3f885d363ee56p-1, -0x1.0e145eaa739eap+1, 0x1.53d2ac2776cbcp-1,
    -0x1.93d19d2e1d4a2p-2, -0x1.d29792e511e9fp+0, 0x1.5c47f288ef838p+0,  -0x1.79191d671f96fp-2,
    -0x1.ae0f62db85bc2p+1, 0x1.31c15c7a947dcp-2,  0x1.98e824d6e33c4p-3,  0x1.0b4d53b007f22p+2,
    0x1.4960ac6025dc7p-1,  0x1.f382e8d1092d1p+0,  0x1.98f60efa89e2bp+1,  0x1.cbbf9789c519ap-2,
    0x1.53da144ba327ap+0,  0x1.e7ae9976e7f81p+0,  -0x1.342dc4391a2fbp-2, 0x1.ef039b66702adp+0,
    0x1.c8f247b0d1801p+0,  -0x1.2199073e70fb4p-2, -0x1.7893ccbc4c9e7p+1, 0x1.4c56269ea7525p-1,
};
static const double rms_norm_1_dw[] = {
    -0x1.cd4185b30dbf4p+0, -0x1.0f8391990d330p-1, -0x1.486ccf977da8cp-2,
    0x1.6fca86a9a8779p+1,  0x1.25ead5c40b6ccp-2,  -0x1.7e89940132738p-5,
};
static const double rms_norm_2[] = {
    -0x1.d17d283a4ac68p-1, 0x1.2b3e2c2579368p-2,  0x1.7e5daa2fe1fe9p+0,  -0x1.2b3e2c2579368p-1,
    0x1.3bde12278e2b5p-1,  -0x1.760db72ed7842p+0, -0x1.32b89b74deb9dp-2, 0x1.15f74ce1e9d86p+0,
    -0x1.4f79ea07d39b3p+0, 0x1.32b89b74deb9dp-4,  0x1.75d0fd766f727p+0,  -0x1.df4072e69c026p-1,
    0x1.a7d9a398eb665p-2,  0x1.b0ae2c56c5a31p+0,  -0x1.08e8063f931ffp-1, 0x1.848780a182732p-1,
    -0x1.72de6f25cdf98p+0, -0x1.61355daa197ffp-3, 0x1.299cbea8686ebp+0,  -0x1.299cbea8686ebp+0,
    0x1.7403ee52828a6p-3,  0x1.869dba3d09115p+0,  -0x1.993786278f984p-1, 0x1.1702f2bde1e7cp-1,
};
static const double rms_norm_2_dx[] = {
    0x1.6333391b7a294p+0,  -0x1.afbfb98deb581p-2, 0x1.0c77c986b2757p+0,  -0x1.7e9c7b83fcc10p+0,
    -0x1.8d30e673dd620p-6, 0x1.6c83ad89473d9p-1,  -0x1.263bd3ee646e9p+0, 0x1.54428163be220p-7,
    0x1.c93434f5bb5d2p+0,  -0x1.abfc3983ef652p-1, 0x1.4b98f0bcd0e11p-2,  -0x1.aea4be86b6e16p+0,
    -0x1.c0cfeae8e48d4p-2, 0x1.868be37c03308p-1,  -0x1.5093dea34166ep+0, -0x1.d19f22b06ab6dp-4,
    0x1.4ae6305ad051fp+0,  -0x1.faf3ac281dde2p-1, 0x1.99d28cae3d23ap-3,  0x1.b9b14a312552ep+0,
    -0x1.68a827ce55c8cp-1, 0x1.11fa8f881d03ap-1,  -0x1.9be279641d6d4p+0, -0x1.7a4476e3901c2p-2,
};
static const double batch_norm_1[] = {
    0x1.0f6ca82a28194p+0,  0x1.499fe84e070bep-3,  -0x1.b6e54e6b48b78p+2, 0x1.6a249b9f9b7ddp-2,
    0x1.fc06cfdc93b47p-1,  0x1.007a95883b812p-1,  -0x1.6969696969698p-2, 0x1.d2d2d2d2d2d2ep+0,
    -0x1.3b1898ff8ee40p-2, -0x1.0f3ddb9c9b943p+0, 0x1.53d11edbade5dp+1,  -0x1.1dc99743e5326p+0,
    -0x1.c4215cdedcce0p+0, 0x1.be38d44df2623p+1,  -0x1.eccd0847e6ac0p+0,
};
static const double batch_norm_1_dx[] = {
    -0x1.6da95067a5b6bp+1,  -0x1.3a6fc9c3efd77p-9, -0x1.9ed66755dbf46p+0, 0x1.6d43153635567p+1,
    -0x1.3a6fc9c3f031ep-10, -0x1.3c840002a051dp+1, 0x1.6d6528f15acbdp+0,  -0x1.69415fcec260fp-52,
    -0x1.a36875a298cb0p+1,  0x1.109dd92bab7f3p-10, 0x1.3a6fc9c3ef4fdp-10, 0x1.058f07bc07e40p+2,
    -0x1.6cdcda04c4f62p+0,  0x1.3a6fc9c3ef7d0p-9,  0x1.a43999d8174f0p+1,
};
static const double batch_norm_1_dw[] = {
    -0x1.0f5541e361d6bp+2,
    0x1.0a03459dab36fp+2,
    0x1.c9b01a72faebbp-5,
};
static const double batch_norm_1_db[] = {
    -0x1.bc3c3c3c3c3c4p+1,
    0x1.7878787878788p+0,
    0x1.e1e1e1e1e1e30p-2,
};
static const double batch_norm_1_mean[] = {
    0x1.bdbdbdbdbdbdcp-3,
    0x1.3272727272727p+1,
    -0x1.4073a6da0d408p+0,
};
static const double batch_norm_1_var[] = {
    0x1.6231404f5e6d8p+0,
    0x1.89f17900880fap+1,
    0x1.79af249a0f84fp+0,
};
static const double batch_norm_2[] = {
    0x1.f9175547a58e8p-2,  -0x1.96cc6d5f49106p-1, -0x1.0a892158993a1p+1, 0x1.2960ba1d3ada1p-3,
    -0x1.247ff4bde6909p+0, 0x1.15be6536f33ebp+0,  -0x1.9f6d3654d5691p-3, -0x1.7d99b2cc2898fp+0,
    0x1.52d5e6650576dp-2,  0x1.d3785785d1564p+0,  0x1.a91d9ab930a76p+1,  0x1.7850d2f0a70a5p-1,
    0x1.1d75a3b271beep+1,  0x1.dcd712a8b9bb3p+1,  0x1.239b595765acbp+0,  0x1.512f1ba1fad2ap+1,
    0x1.ebc1eb6cdeb7cp+0,  -0x1.6210ce2303c3dp+0, -0x1.2bf8e1ecb98fdp+2, 0x1.07281a23633c6p+0,
    -0x1.23554fb63f9f9p+1, -0x1.651f563f186ebp+2, 0x1.147246cf3e089p-3,  -0x1.95a2385afd5d4p+1,
    0x1.39624ad640dbbp+0,  -0x1.049c12b4d102cp-4, -0x1.59f5cd2cdafc1p+0, 0x1.c091198ffda68p-1,
    -0x1.a58dfce63c624p-2, -0x1.b30f8b3b1d046p+0, 0x1.0e5d9d737995cp-1,  -0x1.84fa7a8fa241fp-1,
    0x1.c8267c48e94cep+1,  0x1.f474592f89a02p-1,  0x1.3c7e85422a645p+1,  -0x1.d15c175b90107p-4,
    0x1.61ad1c76d6f79p+0,  0x1.7037fd31b3781p+1,  0x1.2974b9a5649a0p-2,  0x1.c9200c55e91f1p+0,
    -0x1.4e4327b7bf48cp+2, 0x1.f7fc0bdd3162fp-2,  -0x1.67e9db4c4b116p+1, -0x1.87699c0a1e27ap+2,
    -0x1.9a6b3948bc8a4p-2, -0x1.da36c3f108cf1p+1, 0x1.014f0cfa1beedp+1,  -0x1.4b349f9baa9dep+0,
};
static const double batch_norm_2_dx[] = {
    -0x1.4e6c1b1d96627p+0, 0x1.09c124a2125ebp-1,  -0x1.2bbd2636befa0p+0, 0x1.c091ef75d984ep+0,
    0x1.fe86ddc22b704p-5,  -0x1.0f4e32b77bc18p-1, 0x1.4ba59412e1b11p+0,  -0x1.93e091d399e13p-2,
    0x1.f34c181424492p+0,  -0x1.86a13a8ff58adp-1, 0x1.35d0ae8507dc8p-1,  -0x1.c2e1f5c8b817fp+0,
    -0x1.92a404f8e591bp-2, 0x1.f31fe6988a9e9p-1,  -0x1.643a59bef6b71p+0, -0x1.80594d1e00db0p-6,
    -0x1.e947521fad7cdp+1, 0x1.194c200839787p+1,  -0x1.9a3e6e0bd6375p-1, -0x1.2883156ec16c4p+2,
    0x1.631a8e94c839ap+0,  -0x1.9c9ce88195d30p+0, 0x1.c9aa2a17bdc79p+1,  0x1.2739ba323b04bp-1,
    -0x1.6388a003d1635p-2, 0x1.7a6a856dab38fp+0,  -0x1.b19998d0e7831p-3, -0x1.9b9d06c7d8595p-1,
    0x1.057e2a0ab3652p+0,  -0x1.563f1cfa29886p-1, -0x1.42badec6e4008p+0, 0x1.21239d4f77229p-1,
    0x1.a7669cf7231dcp-1,  -0x1.8a16fe8faa777p+0, -0x1.5ef050295e1eap-3, 0x1.8b2d52d635f80p+0,
    -0x1.2b6f6285e9168p+0, 0x1.964c9024ace96p-3,  0x1.e9d4eedff7591p+0,  -0x1.998f8cf84f6b1p-1,
    -0x1.499dd4b684bcep+0, 0x1.f329b3fd4652ap+1,  0x1.cd37e1c85d30ep-1,  -0x1.0c8dc31917ba1p+1,
    0x1.8b6adb3f70f6fp+1,  0x1.71e3f6883e12cp-4,  -0x1.dee76fa64b5a2p+1, 0x1.23ac02819b9b4p+1,
};
static const double batch_norm_2_dw[] = {
    -0x1.0e357a9a887cfp+3,
    0x1.2a28ca3bf8e27p+1,
    0x1.4271b04aeba0ap+1,
};
static const double batch_norm_2_db[] = {
    0x1.d2d2d2d2d2d2cp+1,
    -0x1.7878787878788p+1,
    -0x1.cb4b4b4b4b4b5p+1,
};
static const double batch_norm_2_mean[] = {
    0x1.54b4b4b4b4b4cp-3,
    0x1.e1a5a5a5a5a5bp+0,
    -0x1.e787878787879p-1,
};
static const double batch_norm_2_var[] = {
    0x1.d7a2b1c0cfdeep+0,
    0x1.a3221303f4e5ep+1,
    0x1.a29cf751ac066p+0,
};
static const double batch_norm_3[] = {
    0x1.4373bd1073ad8p+0,  -0x1.1905b2a00d70dp-1, -0x1.2e3cb7d8408f3p+1, 0x1.8c1cff548984dp-1,
    0x1.e6b0e3434e7f8p-1,  -0x1.7a81a7f24c6fap+0, -0x1.2ff9128c38e3fp-4, 0x1.548285a0c5532p+0,
    -0x1.80e3adbc1e126p-4, -0x1.567d7c94c81c3p+2, -0x1.537bb5394fe01p+3, -0x1.83d050c4ab00ep+0,
    -0x1.644271108ffdep-1, -0x1.410be77461327p+1, 0x1.40e040e406f7bp-1,  -0x1.2f8675ee76ea1p+0,
    -0x1.5d5b6ebf5d037p+0, 0x1.44d501457bbf3p-5,  0x1.71a8bed3b4bf6p+0,  -0x1.f862b5807de01p-1,
    -0x1.71c5a49fd9983p+2, -0x1.611fc93ed89e1p+3, -0x1.f0f0f0f0f0f0ep+0, -0x1.ccb62a1a13e02p+2,
};
static const double batch_norm_3_dx[] = {
    -0x1.333809a0bfc00p+1, 0x1.782fb8328cc15p-1,  -0x1.13deba4734054p+0, 0x1.07549a89c8edcp+1,
    -0x1.84a84ffc784dap-3, 0x1.36ed0cc9f9d7bp+0,  -0x1.36ed0cc9f9d7bp+0, 0x1.84a84ffc784dap-3,
    -0x1.7df2309af4c7fp+2, 0x1.90224b4d006ffp+1,  -0x1.10d1906eaed7fp+1, 0x1.bd9a8e0a1d93ep+2,
    0x1.2cf2f9c20a345p-1,  -0x1.397d197f754bdp+0, 0x1.e90ad5db5094ep+0,  0x1.9143f7ad62f06p-4,
    0x1.541345fce943ep+0,  -0x1.19c6d3970a6b8p+0, 0x1.36ed0cc9f9d7bp-2,  0x1.b53d59fc07576p+0,
    0x1.5991fb36dd77fp+1,  -0x1.4761e084d1cffp+1, 0x1.a25265ff0c17fp+2,  0x1.4761e084d1cffp+0,
};
static const double batch_norm_3_dw[] = {
    0x1.6824a62d61dbdp+2,
    -0x1.73b6e523a9f05p+3,
    0x1.e61cf80b08fdfp-1,
};
static const double batch_norm_3_db[] = {
    -0x1.a5a5a5a5a5a5cp-1,
    0x1.bc3c3c3c3c3c3p+1,
    -0x1.0787878787878p+2,
};
static const double batch_norm_3_mean[] = {
    0x1.2d2d2d2d2d2d3p-2,
    0x1.3c3c3c3c3c3c4p+1,
    -0x1.4b4b4b4b4b4b5p+0,
};
static const double batch_norm_3_var[] = {
    0x1.70f0f0f0f0f0fp+0,
    0x1.a969696969697p+1,
    0x1.25a5a5a5a5a5ap+0,
};
static const double group_norm_1[] = {
    0x1.deec1fc7369bfp-2,  -0x1.7a4493b0081a0p-1, -0x1.f1ff9ba1d5c10p+0, 0x1.3ddfe298d6f89p+0,
    0x1.549f4e95f5e63p+1,  0x1.a5b379a36e9d2p-3,  -0x1.22307f473d884p+0, -0x1.2e0ab2772353bp+2,
    0x1.7bafa94f3af3dp+0,  0x1.ad41300128940p-3,  -0x1.718a51a44162ep-2, 0x1.4074b6019f06bp-1,
    -0x1.4becdcef52ecap-1, -0x1.ef164d8dd4a49p+0, 0x1.28d654c2ecf30p-2,  0x1.4a368ce8670dap+1,
    -0x1.2ab2d2dd47261p-5, 0x1.79def7650c57ap+0,  -0x1.195dda4c9162ep+2, 0x1.ce6309f982b76p+0,
    -0x1.c797409bcd0f4p+0, -0x1.3ce99fc388151p-2, 0x1.5ac50ef1fbadap-1,  0x1.b57cd0fc86b95p-4,
};
static const double group_norm_1_dx[] = {
    -0x1.4a08753cc69f6p+0, 0x1.dd6b88d5e2b14p-1,  -0x1.1d4f097f6881ap-3, -0x1.442601338db6bp+0,
    0x1.26d99639e9a0fp-2,  0x1.796c2da6d5a55p+0,  0x1.aca46595fd5cdp+1,  -0x1.cc59a9665421dp-1,
    -0x1.ab7f618de58e8p+1, 0x1.a18cd5ee00faap-2,  -0x1.a645b46f1460dp-1, 0x1.4ea2715f04664p+0,
    0x1.c2d4b2b92fd5ap-2,  0x1.ed1d494be9eb0p-6,  0x1.7aa9aa69e3d1cp-1,  0x1.6cdd48951acc2p-3,
    0x1.6925a2fe62514p-3,  -0x1.907ed47add299p+0, -0x1.0374037826237p+0, -0x1.6cdb08749a32cp+1,
    0x1.2ba6ef74cefe6p+1,  -0x1.93f343ec3c9b6p-1, 0x1.f25b8a980312fp+0,  0x1.75e933575f1c5p-2,
};
static const double group_norm_1_dw[] = {
    0x1.79194bc41a8f6p+1,
    -0x1.19c2e38680609p+2,
    -0x1.6ba5ea5c75725p+2,
    0x1.024673ec39484p+3,
};
static const double group_norm_1_db[] = {
    0x1.c3c3c3c3c3c3cp+0,
    -0x1.4b4b4b4b4b4b6p-1,
    0x1.70f0f0f0f0f10p+1,
    -0x1.5e1e1e1e1e1e2p+2,
};
static const double group_norm_2[] = {
    -0x1.eba99016f9950p-1, 0x1.eba99016f9952p-1,  0x1.f8eca6e0e2116p-1,  -0x1.f8eca6e0e2118p-1,
    0x1.f8eca6e0e2116p-1,  -0x1.f8eca6e0e2116p-1, -0x1.eba99016f9950p-1, 0x1.eba99016f9952p-1,
    -0x1.eba99016f9950p-1, 0x1.eba99016f9950p-1,  0x1.f8eca6e0e2116p-1,  -0x1.f8eca6e0e2116p-1,
    -0x1.eba99016f994ep-1, 0x1.eba99016f9952p-1,  -0x1.eba99016f9952p-1, 0x1.eba99016f9950p-1,
    -0x1.eba99016f9952p-1, 0x1.eba99016f9950p-1,
};
static const double group_norm_2_dx[] = {
    0x1.08e1f7e2952c7p-3,  -0x1.08e1f7e2952cbp-3, 0x1.bb7e497cf23c0p-6,  -0x1.bb7e497cf23c0p-6,
    -0x1.0065027c3c0e0p-6, 0x1.0065027c3c0d0p-6,  -0x1.3245469dfc7d0p-4, 0x1.3245469dfc7d0p-4,
    0x1.08e1f7e2952fcp-3,  -0x1.08e1f7e2952f8p-3, 0x1.bb7e497cf23e0p-6,  -0x1.bb7e497cf2400p-6,
    -0x1.3245469dfc7d0p-4, 0x1.3245469dfc7e0p-4,  -0x1.3245469dfc7c0p-4, 0x1.3245469dfc7d0p-4,
    0x1.08e1f7e2952e8p-3,  -0x1.08e1f7e2952e8p-3,
};
static const double instance_norm_1[] = {
    0x1.67c4318301559p-1,  -0x1.2d4ea0249346ep-1, -0x1.e130b8e613f1bp+0, 0x1.6a321b35ce03ap-2,
    0x1.53d31b085af97p+1,  0x1.c0f34050f1968p-6,  0x1.8be1b1be31c82p+0,  0x1.885fcb3d8fe4fp+1,
    0x1.94fcae35d729bp-1,  -0x1.4681b67590044p+1, -0x1.79214c3c4ae97p+2, -0x1.cb97d0263aa53p-4,
    -0x1.13b3992425b74p-3, -0x1.c00ceee6180a2p+0, 0x1.0b583a3163556p+0,  -0x1.247c83205ffbbp-1,
    0x1.29cc1e550bb77p-1,  0x1.0ce1f9f3b9eecp+1,  0x1.cf50ec5230efap+1,  0x1.fbfedf29df657p-1,
    -0x1.6048b8a1d70dbp+0, -0x1.63afc98798db3p+2, 0x1.acdd443c818abp+0,  -0x1.40cc94a0056a2p+1,
};
static const double instance_norm_1_dx[] = {
    -0x1.a95a0cb49ca24p+0, 0x1.52f682d937e94p-1,   -0x1.13ec31f2fa6a8p-1, 0x1.89d4e4417de2ep+0,
    0x1.4eca412ed911ep-4,  0x1.632787f109679p-1,   -0x1.68cefb4a6f3fdp+0, 0x1.449d267df9f5fp-1,
    -0x1.133a4474ddd27p+2, 0x1.b6a86d191b2e1p+0,   -0x1.65138bef25f35p+0, 0x1.fdaa1854c1077p+1,
    0x1.42e9cc4db025ap-20, -0x1.0254a3710db50p-17, 0x1.0254a3710db50p-17, -0x1.42e9cc4cf21efp-20,
    0x1.28aa8cebb4cc8p-3,  -0x1.a497ea9cd609fp+0,  0x1.6e764dea7b019p-1,  0x1.908ee41443df1p-1,
    0x1.a1e344a10350fp-19, -0x1.4e4f6a19b6c39p-16, 0x1.4e4f6a19f43e3p-16, -0x1.a1e3449fcfebdp-19,
};
static const double instance_norm_1_dw[] = {
    0x1.7706a8ab2b78ap+2,
    -0x1.83852b1a494a6p+2,
    0x1.7706a8ab2b78ap+2,
};
static const double instance_norm_1_db[] = {
    -0x1.a5a5a5a5a5a5cp-1,
    0x1.bc3c3c3c3c3c3p+1,
    -0x1.0787878787878p+2,
};
