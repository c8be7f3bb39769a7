/* Recorded from PyTorch by record_attention.py. */
static const double attention_plain[] = {
    -0x1.8647953e90be7p+0, 0x1.4d8eb385a658cp-1,  0x1.9b2c9869fb945p+0,  -0x1.df61fd4ff44fcp-1,
    0x1.593c1ef005ebep+0,  -0x1.33e6e7cc0bb1ep+1, -0x1.e1065ccda9899p-3, 0x1.efd2b5869c828p+0,
    -0x1.9a5fcbcb1af9cp+0, 0x1.257b75dfd7e48p-1,  0x1.fb86f6d5ffce6p+0,  -0x1.03c9353484632p+0,
    0x1.35e81cc90c9e8p-1,  0x1.ab9723e558458p-3,  -0x1.f4748cebcc374p-1, 0x1.318aa4fb1ce5dp+0,
    -0x1.52caaccb113c3p+1, -0x1.e1baa72fdab0bp-2, 0x1.b4b3ab7d8bf79p+0,  -0x1.077f617fc5f0fp+1,
    0x1.055d5eec6b3aep-1,  0x1.9c5ce98700343p-1,  -0x1.10e8863e65325p+0, 0x1.1945460ccc341p+0,
};
static const double attention_plain_dquery[] = {
    -0x1.7cfbbee86039dp-2,  -0x1.7d316edfb0cc6p-2, -0x1.7d60a15317c53p-2,  -0x1.7cfbbee86039fp-2,
    -0x1.a89430703c7cep-7,  -0x1.a7ce2f09c3029p-7, 0x1.43c6965820b59p-6,   -0x1.a89430703c827p-7,
    -0x1.ea80fde35e051p-3,  -0x1.ea9024b302773p-3, -0x1.ea9d6c4d55e33p-3,  -0x1.ea80fde35e051p-3,
    -0x1.6fce91b0fbc1ep-1,  -0x1.6cd6e584aa3b6p-1, -0x1.73a4d7d3d24b3p-1,  -0x1.6cd6e584aa3b9p-1,
    -0x1.c0b8b9aa4b495p-10, 0x1.01c38fe2e0b66p-10, -0x1.45fa3575c7db1p-11, 0x1.01c38fe2e2c2ep-10,
    -0x1.341987f8708a8p-1,  -0x1.31280e7f42b13p-1, -0x1.3f12a06000e0dp-1,  -0x1.31280e7f42b13p-1,
};
static const double attention_plain_dkey[] = {
    0x1.1ce2ba49b583cp+1,   0x1.0669d971c3691p-2,   -0x1.bef285990f2dbp+0, 0x1.b1827bfa2e553p+0,
    -0x1.8abd6a3e939b9p-14, -0x1.1faf3d8b77e29p-16, 0x1.5de67eb59f34fp-14, -0x1.337dd89b696f9p-14,
    -0x1.988f451fc1034p-1,  -0x1.1ab24dd8a0edep-4,  0x1.51e4f3bdc2793p-1,  -0x1.33b04d49bbcc1p-1,
    -0x1.5e106c339030bp-9,  -0x1.dd872b1f52471p-7,  0x1.97a2411088016p-8,  -0x1.81d96f3880383p-8,
    -0x1.6cc89ed7c7c39p+0,  -0x1.61991bcb54dc9p-3,  0x1.1462f1df2292bp+0,  -0x1.1623adeeb5817p+0,
    0x1.fc642ac82fa56p-3,   -0x1.13440b0a54214p+2,  0x1.c89be4646d470p+1,  -0x1.f6c9d172f7d6fp-1,
    0x1.c218c6ac4bf72p-10,  -0x1.39997de5432b7p-7,  0x1.2c1901d794bd7p-7,  -0x1.170e538cdfb39p-9,
    -0x1.3da1006e9825dp-4,  0x1.01c2caf7d72ccp+1,   -0x1.9a98e749ebd5dp+0, 0x1.f31afab2b0184p-2,
    -0x1.0546db2361f05p-10, -0x1.cd1f62bc2d09bp-9,  0x1.704c28d21ef85p-9,  0x1.2e819d3d17352p-12,
    -0x1.5f0d4e67f56dbp-3,  0x1.26722c7365646p+1,   -0x1.f9af399706f1ap+0, 0x1.fc5b24730a12cp-2,
};
static const double attention_plain_dvalue[] = {
    0x1.d2ad2d4b8bec7p-1,   -0x1.6305688f17a6ep-2, 0x1.8349aec405486p-2,   -0x1.c28b0a31151bbp-1,
    -0x1.282136d8e24bep-15, 0x1.5142b06b694f7p-10, -0x1.503a11822cb68p-10, 0x1.49351400756bcp-15,
    0x1.96f48bfd66352p+0,   -0x1.44edc04a4d642p-1, 0x1.4cc9c83bfb201p-1,   -0x1.930688048f572p+0,
    -0x1.2c45043f1aa67p-2,  0x1.e0a89238bd2dap+0,  -0x1.e0a7d17716030p+0,  0x1.2c480745b750cp-2,
    0x1.6cebbedf0b9f8p+1,   -0x1.310ff3e736b78p+0, 0x1.250fdb77c2f76p+0,   -0x1.72ebcb16c57f8p+1,
    -0x1.51b9d0986a9ebp-1,  0x1.f1c08beeaa5f2p-1,  -0x1.d9b7cd570a152p+0,  -0x1.bfa10d83f1abep-3,
    -0x1.76094168e76c2p-10, 0x1.d9b29476808bcp-10, -0x1.41297928251f9p-8,  -0x1.262e14b53a934p-13,
    -0x1.333ea5826c1dfp-1,  0x1.a807700f4f808p-1,  -0x1.a47471075ca0cp+0,  -0x1.b65d32db054c7p-3,
    0x1.0755b33ac9f98p+1,   -0x1.b444386ff2880p+0, 0x1.df3e9b298ec03p-2,   0x1.52adcd3e0bcd1p+1,
    -0x1.1f2ad9b7243dcp-1,  0x1.7379413d55963p-1,  -0x1.7fe9c67a5c5cap+0,  -0x1.b49507fc988bap-3,
};
static const double attention_causal[] = {
    -0x1.0000000000000p+0, 0x1.2d2d2d2d2d2d3p+0,  -0x1.4b4b4b4b4b4b5p+1, -0x1.fff1cff97b869p-1,
    0x1.2d3445306f69fp+0,  -0x1.4b47bf49aa2d0p+1, -0x1.f8e618ab7fe01p-3, 0x1.ee106a17bd314p+0,
    -0x1.d5b359ac0692bp+0, 0x1.734657eeb5768p-5,  0x1.1c63aff6516c7p+1,  -0x1.8afc63d720eaep+0,
    0x1.5a5a5a5a5a5a6p+0,  -0x1.34b4b4b4b4b4bp+1, -0x1.e1e1e1e1e1e1ep-3, 0x1.5a600370edd37p+0,
    -0x1.34b1e0296af83p+1, -0x1.e1b4992d4619bp-3, 0x1.13d5c58153c84p+1,  -0x1.9c1838c11c334p+0,
    0x1.2229e8d821f3ep-1,  0x1.f10b295c3a3fep-2,  -0x1.385877bdfc3e9p+0, 0x1.e9a96ade61dd6p-1,
};
static const double attention_causal_dquery[] = {
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    -0x1.100bae98a7fc3p-15,
    -0x1.100bae989f336p-15,
    0x1.3573b03405afep-12,
    0x1.242d2880b7ec2p-5,
    0x1.242d2880b7ee2p-5,
    0x1.20fa88e823e53p-5,
    -0x1.a923ab6ea1b92p-2,
    -0x1.a923ab6ea1b7fp-2,
    -0x1.a3c7b98f0bdf8p-2,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x1.cf1e73c0446bcp-18,
    -0x1.07661ea1e7d59p-14,
    0x1.cf1e73bf982abp-18,
    0x1.7b3d27c10fa41p-4,
    0x1.76f5aef6614bfp-4,
    0x1.7b3d27c10fa21p-4,
    -0x1.02f7375d3f69ap+0,
    -0x1.014fe02054088p+0,
    -0x1.02f7375d3f695p+0,
};
static const double attention_causal_dkey[] = {
    -0x1.fea0999173a6dp-12, 0x1.70e7d695e9529p-10,  -0x1.942618f32a28dp-10, -0x1.1de2f65068cbap-3,
    0x1.296734aaedb49p-1,   -0x1.54d178ac0a5e1p-1,  -0x1.9f27fc3a29ecep-6,  -0x1.1508e595fec94p-4,
    0x1.6a22ca0698683p-8,   0x1.52c7462476c1dp-3,   -0x1.077e8be378cf9p-1,  0x1.52c7462476c1dp-1,
    0x1.cccff2e8f0ed4p-10,  -0x1.bd5cffec1778ap-10, 0x1.58e93a7aaabf2p-12,  0x1.f7471ef02509bp-1,
    -0x1.b613ab17fb9f2p-1,  0x1.a883dc2e8dd4ep-3,   0x1.f0c7084edab2ep-1,   -0x1.394b0eead9a9ap+0,
    0x1.6dbbc376ec857p-5,   -0x1.f47a479c3a1a8p+0,  0x1.0a621ddb693fap+1,   -0x1.024fa0d4c3267p-2,
};
static const double attention_causal_dvalue[] = {
    0x1.a5320a5991efdp-2,  -0x1.2d0cb536223b4p+0, 0x1.966f3ef5626c0p+1,  -0x1.efb486990ae16p+0,
    0x1.37b4523b57a3fp-1,  0x1.e93dc6aabe2f8p-2,  -0x1.e365900f6087bp-1, 0x1.7671bb50dea28p-2,
    -0x1.d73194eb6154cp-3, -0x1.2ea3dee5b46a4p-2, 0x1.9cb0ea21f6053p-3,  -0x1.5107f26888eaap-1,
    -0x1.a560eccc34129p-1, 0x1.c3a75a1b6755bp+1,  -0x1.0002cb728e85ep+2, 0x1.46bdeb2ce9954p-1,
    0x1.a31194ea796a5p-1,  -0x1.c2e8f64e290e4p-1, 0x1.0c2688d9a2226p-1,  0x1.f70fcbbceb3b0p-5,
    -0x1.2a590851252bcp-1, 0x1.77cbc45e2388ep-2,  -0x1.e02f0922f4845p-1, -0x1.77cbc45e2388ep-3,
};
static const double attention_causal_tall[] = {
    -0x1.0000000000000p+0, 0x1.2d2d2d2d2d2d3p+0,  -0x1.0013273bffa40p+0, 0x1.2d1a05f12d894p+0,
    -0x1.4b3ee7299e9c4p+1, -0x1.a5428498402ccp-2, -0x1.4b18267e76288p+1, -0x1.a40c7f3efc8f6p-2,
    -0x1.4a78b10ef4b3fp+1, -0x1.9f10d3c2f0ea5p-2,
};
static const double attention_causal_tall_dquery[] = {
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x1.e9aea0ac525c0p-14,
    0x1.e9aea0ac56a73p-14,
    -0x1.1681b82ed05b4p-10,
    -0x1.aba78f3eb124fp-13,
    -0x1.aba78f3eb11c2p-13,
    0x1.e674ffbdb6473p-10,
    0x1.b8f397539a5a9p-11,
    0x1.b8f397539b735p-11,
    -0x1.f59515bbe6c07p-8,
    -0x1.4f391fa70a328p-9,
    -0x1.4f391fa70a222p-9,
    0x1.7d50fa679b8dfp-6,
};
static const double attention_causal_tall_dkey[] = {
    0x1.f951cb0ec057ap-11,  0x1.f48685397c69cp-8,  -0x1.4d449c23dbb76p-8,
    -0x1.f951cb0ec106fp-11, -0x1.f48685397c42ep-8, 0x1.4d449c23dba40p-8,
};
static const double attention_causal_tall_dvalue[] = {
    0x1.0bcbbd5e89e7ep+2,
    -0x1.adb1b983049eep+1,
    0x1.25260bf943648p-2,
    0x1.c5d5f51b218aap-1,
};
static const double attention_causal_wide[] = {
    -0x1.0000000000000p+0,
    0x1.2d2d2d2d2d2d3p+0,
    -0x1.0013273bffa40p+0,
    0x1.2d1a05f12d894p+0,
};
static const double attention_causal_wide_dquery[] = {
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x1.e9aea0ac525c0p-14,
    0x1.e9aea0ac56a73p-14,
    -0x1.1681b82ed05b4p-10,
};
static const double attention_causal_wide_dkey[] = {
    0x1.63050149bd39ap-12,
    -0x1.87bee6f0438f1p-14,
    -0x1.13723a60ef80ap-11,
    -0x1.63050149be110p-12,
    0x1.87bee6f0447cap-14,
    0x1.13723a60f027bp-11,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
};
static const double attention_causal_wide_dvalue[] = {
    0x1.0b47647cb3a9ep+2,
    -0x1.ad1e478cbbadbp+1,
    0x1.f3674bd0b3605p-13,
    -0x1.dcb40e2ff10a8p-12,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
    0x0.0p+0,
};
static const double attention_bool[] = {
    -0x1.eb81ef5257b1cp-1, 0x1.21677abe85ae8p+0, 0x0.0p+0, 0x0.0p+0,
    -0x1.48b57732c6235p+0, 0x1.c8ef6bf4ce13cp-1,
};
static const double attention_bool_dquery[] = {
    0x1.33a6614cf57dep-2,  -0x1.61785a0145a0fp-2, 0x0.0p+0, 0x0.0p+0,
    -0x1.23e1585e524a7p+0, 0x1.a9fcc628cb209p-2,
};
static const double attention_bool_dkey[] = {
    0x1.7d80a1a4b595cp-2,  0x1.6989059d4701ep-1,  -0x1.f8dfbb72b7da7p-4,
    -0x1.62fd4fcca945ap-1, -0x1.fe9165900f3dap-3, -0x1.a2ed74276ef78p-7,
};
static const double attention_bool_dvalue[] = {
    0x1.4caf700ad4048p+1, 0x1.5a3177fe02a6bp-1, -0x1.aede04bb1ae45p-5,
    0x1.58b19d627be9dp-2, 0x1.55d4d4d8ec96cp-5, -0x1.a291abd026ecdp-7,
};
static const double attention_float[] = {
    -0x1.94bcf62276ee0p-1, 0x1.62ceb21bf1b64p+0,  -0x1.307a88d3e906dp+1, -0x1.9c20cf5fa9e24p-2,
    0x1.c624f95542b49p+0,  -0x1.fd9eca6e810f3p+0, 0x1.29b23c2159d90p+0,  -0x1.44df195d87473p-1,
    -0x1.b39169d4f2f67p-2, 0x1.4be031e90a5b2p+0,  -0x1.e13a8ffdcc1fdp+0, -0x1.2ad992b630ee1p-2,
    -0x1.640c44eeabd36p+0, -0x1.205c67bd69b02p-2, 0x1.e516133dd2c12p+0,  0x1.48cdc13f73211p+0,
    -0x1.e3261a1e2638cp-1, 0x1.3b9a201e1a10cp+0,  -0x1.01ce222048680p+0, 0x1.2b5f0b0ce4c52p+0,
    -0x1.6a6ad819ea402p-2, -0x1.e4670b39db3e1p-1, 0x1.3af9a7903f8e1p+0,  -0x1.0a61db77658a6p-2,
};
static const double attention_float_dquery[] = {
    0x1.21e946c90cf0cp-1,  -0x1.03c04e75b7151p-2, 0x1.350e5324fda51p-9,  0x1.6877479ce7cf1p-8,
    0x1.0a7541fe3a161p-3,  0x1.074ae030fd670p-3,  0x1.2e96fbea8b332p-2,  0x1.3cace1adc1625p-2,
    -0x1.4ef27ef9949afp-2, -0x1.4ef27ef9949aep-2, -0x1.5c845b97e2612p-3, -0x1.5c845b97e2610p-3,
    -0x1.c43e526521f20p+0, 0x1.dfe4e0aae03b6p+0,  -0x1.f414fd78a560fp-4, 0x1.4ad5efd316e41p-3,
};
static const double attention_float_dkey[] = {
    0x1.454e900e3e2a9p-2,  0x1.f671150d98d1cp-7,  -0x1.0c1dd283de012p-2, -0x1.236157251a87ap-6,
    -0x1.c985ec5301508p-5, 0x1.414664f270ed1p-9,  -0x1.6a20dbe65a994p-3, 0x1.acb8e12e5a10dp-2,
    0x1.6493fef9a441dp-3,  -0x1.aaeac66ab55f8p-2, 0x1.63373b2d95d42p-9,  -0x1.ce1ac3a4b12abp-10,
    0x1.94c1efc819ca0p-3,  0x1.645e1f6f01375p-3,  -0x1.da37172fe0e90p-7, -0x1.8bf7017c6db6bp-7,
    -0x1.771e7e551bbb7p-3, -0x1.4b9eaf573a5c1p-3, 0x1.2eccbce9d9048p-5,  -0x1.669cf8d5ea7e9p+0,
    -0x1.64f11608c5bc9p-6, 0x1.10020c6c123b5p-2,  -0x1.f150c795d895dp-7, 0x1.229c75bae5efbp+0,
};
static const double attention_float_dvalue[] = {
    0x1.e9bda5e072978p+0,  -0x1.2da3c613b64fep-1, 0x1.bce3a167030eep-1,  -0x1.84fbf7a47af5fp+0,
    -0x1.1f90cd98e4f28p-1, 0x1.1efd36cc7dd00p+1,  0x1.29eecb5c71f6ep-6,  -0x1.a4b8d5b7e2fe9p-6,
    0x1.0c0eee0b005c7p-4,  -0x1.80c48b8da5a59p-1, 0x1.7a75f101989b5p-3,  0x1.10ad805497617p-1,
    -0x1.33fae0dacfc54p+1, 0x1.f935f9667e8bfp-1,  -0x1.e956c85a0d500p-1, -0x1.35496c2eb3fd6p-6,
    0x1.437259bad3ce9p-8,  0x1.759d4ca8c6ea7p-7,  -0x1.b650cc20c4c2dp-3, 0x1.ca5d7b2c14419p+0,
    -0x1.ad40edcd4e14cp+0, -0x1.0a5cce0a83953p-6, 0x1.2a71dd8a213d1p-4,  -0x1.4cf7c36958132p-4,
    -0x1.2fbe8c2d20584p-1, 0x1.aa82ee82d1321p+0,  -0x1.1ef7cafe0e34fp+1, 0x1.2a6975a777e30p-1,
    -0x1.3049e5823b170p-5, -0x1.3fa36d0d327cdp-1, 0x1.e9229ba015548p-4,  0x1.34404227f53dcp-2,
    -0x1.96d708fa1035bp-3, 0x1.a78145f394816p-1,  -0x1.4a7341b3ea174p-2, -0x1.a5f21bff94c11p-1,
};
static const double attention_float_dmask[] = {
    0x1.d0aa1a66824b3p-2,  -0x1.04df1f14ce85cp-1, 0x1.c8a11e18d60dcp-5,
    -0x1.5f1899fa1398ep+1, 0x1.e9d5746a741c8p-2,  0x1.21ddeb6cc5154p+1,
};
static const double attention_grouped[] = {
    -0x1.ec4f9cc832672p-1, 0x1.210612ac3680bp+0,  -0x1.acd6a6a993244p-1, -0x1.0cd8b2568898dp+0,
    -0x1.4485addbbeeacp+0, 0x1.c0fdb9a3f0917p-1,  -0x1.f94f9ba62cce8p-1, 0x1.20f9165ea0e07p+0,
    -0x1.5e79306eeb993p+0, 0x1.9c1c18c86c962p-1,  0x1.78065893b7f8dp+1,  -0x1.a49d952b80810p-1,
    0x1.579ab2d4fdb94p-4,  0x1.1c20fdfa6ff98p+1,  -0x1.f04cd86ea1fd2p-1, 0x1.3033533d91174p+0,
    0x1.24a9cc2dd941ep+0,  -0x1.e9cc09af5ac35p+0, -0x1.668e137cfa656p+0, 0x1.0c3567a544da2p-1,
    0x1.028d85b8259cdp+0,  -0x1.a64badd533370p+0, -0x1.9088c12cc63c0p+0, 0x1.00e0d8fec277cp-1,
    0x1.436d2c5be5b61p+1,  -0x1.3c6ed1c96de93p+0, 0x1.438d4400dea74p+1,  -0x1.3be666094dbfbp+0,
    0x1.b9a7574f8abcfp-2,  -0x1.6778355489d2cp+0, -0x1.13d0a239d692cp-1, 0x1.45b7190b2545ap+0,
};
static const double attention_grouped_dquery[] = {
    0x1.295577ed27be5p-2,   -0x1.5d8bed5fc25b6p-2, -0x1.49f6e7ddde103p+1, -0x1.4a7155788f90fp+1,
    -0x1.2e7ace863a4ecp+0,  0x1.ee900ad4ee89cp-2,  -0x1.7caacfe104b3bp-5, 0x1.ccf0fb4c51ffcp-4,
    0x1.1b657bc31b4c2p-4,   0x1.7bb29b198e74fp-5,  0x1.763e33fc49275p-6,  -0x1.d8cd7a0a02decp-7,
    -0x1.5190522d5afe3p-10, 0x1.7b18192233fefp-3,  -0x1.d8d5d9f3ef713p-1, -0x1.9d394bee0ba5cp-1,
    0x1.6982cf8f095b0p+0,   0x1.6982cf8f095b0p+0,  0x1.099018bbfec02p-2,  0x1.099018bbfec05p-2,
    -0x1.440eb3875e3f6p+0,  -0x1.440eb3875e3f6p+0, -0x1.c324e8cc9de73p-1, -0x1.c324e8cc9de7bp-1,
    0x1.c8a261471e9d9p-8,   -0x1.22a8a7445cbe7p-8, -0x1.acc865cf442c0p-8, 0x1.5de959b6ce34fp-8,
    -0x1.4e788b058a99dp+0,  -0x1.422c2919c4847p+0, 0x1.523bced7471c2p-1,  0x1.660e11b050d1bp-2,
};
static const double attention_grouped_dkey[] = {
    0x1.60d6c18f6633fp-2,  0x1.912c813e5049bp-1,  -0x1.bd44a2eedb4f0p+1, 0x1.0e34d6a5e9a17p+1,
    0x1.9129cabcee889p+1,  -0x1.727ff6f57db3dp+1, 0x1.6fb3de120ae82p-1,  -0x1.4d11b090a02bdp-3,
    -0x1.7e115a0629ed6p-1, 0x1.0b047d144e573p-2,  0x1.cbaf7e83e08d9p-6,  -0x1.91ee932ff907ap-4,
    0x1.358aea2cf992cp+1,  -0x1.877daf3f8691bp+0, -0x1.8845325da47adp-1, 0x1.cc494d80f3400p-3,
    -0x1.a6f33b2b20e7cp+0, 0x1.4df4858f68298p+0,  -0x1.d2dfdf88ec88bp-4, -0x1.1c87339e28edep-6,
    -0x1.d4d6cdaf9c5ffp-4, -0x1.319fdb3032ed2p+0, 0x1.d3db569c4477dp-3,  0x1.3611f7feab908p+0,
};
static const double attention_grouped_dvalue[] = {
    0x1.816a7b19b4a74p-1,  0x1.e9c9ad4525388p-1,  0x1.69757e36b7955p-1,  -0x1.23d3edb505090p+0,
    0x1.152006af93c36p-1,  -0x1.fc7c2c357580cp-1, -0x1.34ed23ab64bf9p+0, 0x1.4a9120609b85cp+0,
    0x1.60de9a4a04710p-1,  -0x1.3e86e0a533d35p+0, 0x1.bdb061c179c30p-1,  -0x1.6f6e89471d429p+1,
    0x1.bf333ce0a66adp-1,  -0x1.138e4f2e626adp-1, -0x1.afe78a184901ep-3, 0x1.96fc15e6f4d89p-2,
    -0x1.f4e7f87895608p+0, 0x1.9c809a95ec77cp+0,  0x1.b789b9bebcdaap+0,  0x1.d8780a7a5c1b6p-4,
    -0x1.bdce36730939dp-1, 0x1.860a80987313fp-2,  0x1.13aeb0bd63e12p+1,  -0x1.586e9bf5df678p-1,
};
static const double attention_shared[] = {
    -0x1.0557eee765831p+0, -0x1.59d838229d044p-2, -0x1.3e27ab216477cp-1,
    -0x1.fda6407e74bffp-1, -0x1.06618b6c5d7a1p+0, -0x1.3125edb50dc4cp+0,
};
static const double attention_shared_dquery[] = {
    -0x1.be3ed2bb8d8cap-4, 0x1.1e85a90b097cep-3,  -0x1.cb495e98a9e69p-1, -0x1.cb1743e4fda39p-1,
    0x1.3f415f0d62b00p+0,  -0x1.bc825f3d7dc16p-2, -0x1.4538250d1bb06p-4, -0x1.0bd0d64b2e59dp-5,
    0x1.c387116bb3898p-7,  -0x1.0e67a6caf2a2fp-6, 0x1.db38a62dd31e4p+0,  0x1.db4e253dbae08p+0,
};
static const double attention_shared_dkey[] = {
    -0x1.cacd18e3f1063p-3, -0x1.7c813bb3f3dcap-1, 0x1.dcf4fff01b080p-1,
    -0x1.8d72311cff99cp-1, -0x1.6a41b9b71ec69p-1, 0x1.84f9b66879bb1p+0,
};
static const double attention_shared_dvalue[] = {
    0x1.2f2b92d5192a7p+0,
    0x1.84db4ac4832b7p-2,
    0x1.b20e07c65ee7bp-1,
};
