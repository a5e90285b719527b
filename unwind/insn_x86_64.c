/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See insn.h. The length comes from two tables of operand forms (Intel SDM vol. 2, appendix A), the meaning
 * of the few instructions that matter from their encodings. Zone: pure.
 */
#include "unwind/insn.h"

/* Operand forms of an opcode, one letter each. */
enum {
    NONE = '.',
    MODRM = 'm',
    IMM8 = 'b',
    IMM16 = 'w',
    IMM_ENTER = 'e', /* 16 and 8 bits */
    IMM_Z = 'z',     /* 32 bits, 16 with operand-size prefix */
    IMM_V = 'v',     /* as z, 64 with REX.W */
    IMM_32 = 'j',    /* branch distance */
    IMM_MOFFS = 'a', /* an address */
    MODRM_IMM8 = 'B',
    MODRM_IMM_Z = 'Z',
    MODRM_TEST8 = 't', /* immediate only with /0 and /1 */
    MODRM_TESTZ = 'T',
    UNKNOWN = '-',
};

static const char one_byte[16][17] = {
    "mmmmbz--mmmmbz--", /* 00 */
    "mmmmbz--mmmmbz--", /* 10 */
    "mmmmbz--mmmmbz--", /* 20: 26, 2e are prefixes */
    "mmmmbz--mmmmbz--", /* 30: 36, 3e are prefixes */
    "----------------", /* 40: REX */
    "................", /* 50 */
    "---m----zZbB....", /* 60: 62 is EVEX, 64 to 67 are prefixes */
    "bbbbbbbbbbbbbbbb", /* 70 */
    "BZ-Bmmmmmmmmmmmm", /* 80 */
    "..........-.....", /* 90 */
    "aaaa....bz......", /* a0 */
    "bbbbbbbbvvvvvvvv", /* b0 */
    "BBw.--BZe.w..b-.", /* c0: c4, c5 are VEX */
    "mmmm---.mmmmmmmm", /* d0 */
    "bbbbbbbbjj-b....", /* e0 */
    "-.--..tT......mm", /* f0: f0, f2, f3 are prefixes */
};

/* After 0f; also what VEX and EVEX call map 1. */
static const char two_byte[16][17] = {
    "mmmm-.....-.-m--", /* 00 */
    "mmmmmmmmmmmmmmmm", /* 10 */
    "--------mmmmmmmm", /* 20 */
    "......-.--------", /* 30: 38, 3a lead on */
    "mmmmmmmmmmmmmmmm", /* 40 */
    "mmmmmmmmmmmmmmmm", /* 50 */
    "mmmmmmmmmmmmmmmm", /* 60 */
    "BBBBmmm.--mmmmmm", /* 70 */
    "jjjjjjjjjjjjjjjj", /* 80 */
    "mmmmmmmmmmmmmmmm", /* 90 */
    "...mBm--...mBmmm", /* a0 */
    "mmmmmmmmmmBmmmmm", /* b0 */
    "mmBmBBBm........", /* c0 */
    "mmmmmmmmmmmmmmmm", /* d0 */
    "mmmmmmmmmmmmmmmm", /* e0 */
    "mmmmmmmmmmmmmmmm", /* f0 */
};

enum map { MAP_ONE, MAP_0F, MAP_0F38, MAP_0F3A };

struct parse {
    const uint8_t *code;
    size_t size, at;
    enum map map;
    uint8_t opcode;
    char form;
    bool word;      /* operand-size prefix */
    bool narrow;    /* address-size prefix */
    bool segment;   /* fs or gs */
    bool vector;    /* VEX or EVEX */
    uint8_t rex;    /* also those bits of a VEX prefix */
    uint8_t second; /* VEX.vvvv */
    bool has_modrm;
    uint8_t mod, reg, rm; /* reg and rm with the REX bits */
    bool rip_relative;
    bool plain_base; /* memory operand [base + displacement]; base is rm */
    int64_t displacement, immediate;
};

static bool have(const struct parse *p, size_t n)
{
    return p->size - p->at >= n;
}

/* n bytes, little-endian and sign-extended; the caller has checked that they are there. */
static int64_t take(struct parse *p, size_t n)
{
    uint64_t value = 0;
    unsigned shift = 64 - 8 * (unsigned)n;

    for (size_t i = n; i > 0; i--)
        value = value << 8 | p->code[p->at + i - 1];
    p->at += n;
    return (int64_t)(value << shift) >> shift;
}

static bool parse_prefixes(struct parse *p)
{
    for (; p->at < p->size; p->at++) {
        switch (p->code[p->at]) {
        case 0x66:
            p->word = true;
            break;
        case 0x67:
            p->narrow = true;
            break;
        case 0x64:
        case 0x65:
            p->segment = true;
            break;
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0xf0:
        case 0xf2:
        case 0xf3:
            break;
        default:
            if ((p->code[p->at] & 0xf0) == 0x40)
                p->rex = p->code[p->at++];
            return p->at < p->size;
        }
    }
    return false;
}

static char form_in_map(enum map map, uint8_t opcode)
{
    switch (map) {
    case MAP_ONE:
        return one_byte[opcode >> 4][opcode & 15];
    case MAP_0F:
        return two_byte[opcode >> 4][opcode & 15];
    case MAP_0F38:
        return MODRM;
    default:
        return MODRM_IMM8;
    }
}

/* SDM 2.3.5, 2.7.1. EVEX names vector registers only. */
static bool parse_vector(struct parse *p)
{
    uint8_t lead = p->code[p->at++];
    unsigned map = 1;

    p->vector = true;
    if (p->rex || !have(p, lead == 0xc5 ? 2 : lead == 0xc4 ? 3 : 4))
        return false;
    if (lead != 0xc5)
        map = p->code[p->at] & (lead == 0xc4 ? 0x1f : 7);
    if (lead != 0x62) {
        p->rex = (uint8_t)(~p->code[p->at] >> 5 & (lead == 0xc5 ? 4 : 7));
        p->second = (uint8_t)(~p->code[p->at + (lead == 0xc4)] >> 3 & 15);
    }
    p->at += lead == 0xc5 ? 1 : lead == 0xc4 ? 2 : 3;
    if (map < 1 || map > 3)
        return false;
    p->map = (enum map)map;
    p->opcode = p->code[p->at++];
    p->form = form_in_map(p->map, p->opcode);
    return p->form == MODRM || p->form == MODRM_IMM8 || (p->map == MAP_0F && p->opcode == 0x77);
}

static bool parse_opcode(struct parse *p)
{
    uint8_t first = p->code[p->at];

    if (first == 0xc4 || first == 0xc5 || first == 0x62)
        return parse_vector(p);
    p->at++;
    p->map = MAP_ONE;
    if (first == 0x0f) {
        if (!have(p, 1))
            return false;
        first = p->code[p->at++];
        p->map = first == 0x38 ? MAP_0F38 : first == 0x3a ? MAP_0F3A : MAP_0F;
        if (p->map != MAP_0F) {
            if (!have(p, 1))
                return false;
            first = p->code[p->at++];
        }
    }
    p->opcode = first;
    p->form = form_in_map(p->map, first);
    return p->form != UNKNOWN;
}

/* SDM 2.1.5 and 2.2.1.6. */
static bool parse_modrm(struct parse *p)
{
    size_t displacement;
    uint8_t byte, base;

    if (!have(p, 1))
        return false;
    p->has_modrm = true;
    byte = p->code[p->at++];
    p->mod = byte >> 6;
    p->reg = (uint8_t)((byte >> 3 & 7) | (p->rex & 4) << 1);
    p->rm = (uint8_t)((byte & 7) | (p->rex & 1) << 3);
    if (p->mod == 3)
        return true;
    displacement = p->mod == 0 ? 0 : p->mod == 1 ? 1 : 4;
    base = byte & 7;
    p->plain_base = true;
    if (base == 4) {
        uint8_t sib;

        if (!have(p, 1))
            return false;
        sib = p->code[p->at++];
        base = sib & 7;
        p->rm = (uint8_t)(base | (p->rex & 1) << 3);
        p->plain_base = (sib >> 3 & 7) == 4 && !(p->rex & 2);
    } else if (base == 5 && p->mod == 0) {
        p->rip_relative = true;
    }
    if (base == 5 && p->mod == 0) {
        displacement = 4;
        p->plain_base = false;
    }
    if (!have(p, displacement))
        return false;
    p->displacement = displacement ? take(p, displacement) : 0;
    return true;
}

static size_t immediate_size(const struct parse *p)
{
    size_t z = p->word && !(p->rex & 8) ? 2 : 4;

    switch (p->form) {
    case IMM8:
    case MODRM_IMM8:
        return 1;
    case IMM16:
        return 2;
    case IMM_ENTER:
        return 3;
    case IMM_Z:
    case MODRM_IMM_Z:
        return z;
    case IMM_V:
        return p->rex & 8 ? 8 : z;
    case IMM_32:
        return 4;
    case IMM_MOFFS:
        return p->narrow ? 4 : 8;
    case MODRM_TEST8:
        return (p->reg & 7) < 2 ? 1 : 0;
    case MODRM_TESTZ:
        return (p->reg & 7) < 2 ? z : 0;
    default:
        return 0;
    }
}

static bool takes_modrm(char form)
{
    return form == MODRM || form == MODRM_IMM8 || form == MODRM_IMM_Z || form == MODRM_TEST8 ||
           form == MODRM_TESTZ;
}

static bool parse(struct parse *p)
{
    size_t size;

    if (!parse_prefixes(p) || !parse_opcode(p))
        return false;
    /* Processors disagree about 16-bit branches, and 8f /1 and up is an AMD extension of another length. */
    if (p->form == IMM_32 && p->word && !(p->rex & 8))
        return false;
    if (takes_modrm(p->form) && !parse_modrm(p))
        return false;
    if (p->map == MAP_ONE && p->opcode == 0x8f && (p->reg & 7) != 0)
        return false;
    size = immediate_size(p);
    if (!have(p, size))
        return false;
    p->immediate = size ? take(p, size) : 0;
    return true;
}

static bool set(struct insn *ret, enum insn_kind kind, int64_t value)
{
    ret->kind = kind;
    ret->value = value;
    return true;
}

#define RSP 4
#define RBP 5
#define RDI 7

/* Which general register a one-byte opcode writes whole or in part; -1: none, or not one by number. */
static int written_by_one_byte(const struct parse *p)
{
    uint8_t op = p->opcode, extension = p->reg & 7;
    int rm = p->mod == 3 ? p->rm : -1;

    if (op < 0x40 && (op & 7) < 4)
        return (op & 0x38) == 0x38 ? -1 : op & 2 ? p->reg : rm;
    if (op >= 0x80 && op <= 0x83)
        return extension == 7 ? -1 : rm;
    if (op >= 0xc0 && op <= 0xd3 && (op < 0xc2 || op >= 0xd0))
        return rm;
    switch (op) {
    case 0x63:
    case 0x69:
    case 0x6b:
    case 0x8a:
    case 0x8b:
    case 0x8d:
        return p->reg;
    case 0x86:
    case 0x87: /* both; see is_exchange() */
    case 0x88:
    case 0x89:
    case 0x8c:
    case 0x8f:
    case 0xc6:
    case 0xc7:
        return rm;
    case 0xf6:
    case 0xf7:
        return extension == 2 || extension == 3 ? rm : -1;
    case 0xfe:
        return rm;
    case 0xff:
        return extension < 2 ? rm : -1;
    default:
        if ((op >= 0x90 && op < 0x98) || op >= 0xb0)
            return op < 0xc0 ? (op & 7) | (p->rex & 1) << 3 : -1;
        return -1;
    }
}

static int written_by_two_byte(const struct parse *p)
{
    uint8_t op = p->opcode;
    int rm = p->mod == 3 ? p->rm : -1;

    if ((op >= 0x40 && op <= 0x4f) || op == 0xaf || op == 0xb6 || op == 0xb7 || op == 0xb8 ||
        (op >= 0xbc && op <= 0xbf) || op == 0x02 || op == 0x03 || op == 0x2c || op == 0x2d || op == 0x50 ||
        op == 0xc5 || op == 0xd7)
        return p->reg;
    if ((op >= 0x90 && op <= 0x9f) || op == 0xa4 || op == 0xa5 || op == 0xab || op == 0xac || op == 0xad ||
        op == 0xb0 || op == 0xb1 || op == 0xb3 || (op == 0xba && (p->reg & 7) != 4) || op == 0xbb ||
        op == 0xc0 || op == 0xc1 || op == 0x7e)
        return rm;
    if (op >= 0xc8 && op <= 0xcf)
        return (op & 7) | (p->rex & 1) << 3;
    return -1;
}

static int written_by_three_byte(const struct parse *p)
{
    if (p->map == MAP_0F38 && (p->opcode == 0xf0 || p->opcode == 0xf1)) /* movbe, crc32 */
        return p->reg;
    if (p->map == MAP_0F3A && p->opcode >= 0x14 && p->opcode <= 0x17) /* pextr */
        return p->mod == 3 ? p->rm : -1;
    return -1;
}

/* A general register that a vector encoding writes; -1: none. */
static int written_by_vector(const struct parse *p)
{
    uint8_t op = p->opcode;

    if (p->map == MAP_0F && (op == 0x2c || op == 0x2d || op == 0x50 || op == 0xc5 || op == 0xd7))
        return p->reg;
    if (p->map == MAP_0F && op == 0x7e)
        return p->mod == 3 ? p->rm : -1;
    if (p->map == MAP_0F38 && op == 0xf3) /* blsr and kin */
        return p->second;
    /* andn, bzhi, pdep, mulx, bextr, shlx; rorx */
    return (p->map == MAP_0F38 && op >= 0xf2 && op <= 0xf7) || (p->map == MAP_0F3A && op == 0xf0) ? p->reg
                                                                                                  : -1;
}

static int written(const struct parse *p)
{
    if (p->vector)
        return written_by_vector(p);
    return p->map == MAP_ONE  ? written_by_one_byte(p)
           : p->map == MAP_0F ? written_by_two_byte(p)
                              : written_by_three_byte(p);
}

/* xchg, xadd and mulx have a second one; -1: there is none. */
static int written_too(const struct parse *p)
{
    if (p->vector)
        return p->map == MAP_0F38 && p->opcode == 0xf6 ? p->second : -1;
    return (p->map == MAP_ONE && (p->opcode == 0x86 || p->opcode == 0x87)) ||
                   (p->map == MAP_0F && (p->opcode == 0xc0 || p->opcode == 0xc1))
               ? p->reg
               : -1;
}

/* Byte registers 4 and 5 without REX are ah and ch's neighbours, not spl and bpl. */
static bool is_old_byte_register(const struct parse *p)
{
    bool byte_sized =
        p->map == MAP_ONE
            ? !(p->opcode & 1) && p->opcode != 0x8c && p->opcode != 0x8d && p->opcode != 0x63
            : (p->opcode >= 0x90 && p->opcode <= 0x9f) || p->opcode == 0xb0 || p->opcode == 0xc0;

    return byte_sized && !p->rex &&
           (p->map == MAP_0F || p->opcode < 0x40 || p->opcode == 0x80 || p->opcode == 0x86 ||
            p->opcode == 0x88 || p->opcode == 0x8a || (p->opcode >= 0xb0 && p->opcode < 0xb8) ||
            p->opcode == 0xc0 || p->opcode == 0xc6 || p->opcode == 0xd0 || p->opcode == 0xd2 ||
            p->opcode == 0xf6 || p->opcode == 0xfe);
}

static bool classify_branch(const struct parse *p, uint64_t next, struct insn *ret)
{
    int64_t target = (int64_t)(next + (uint64_t)p->immediate);

    if (p->map == MAP_0F) {
        if (p->opcode >= 0x80 && p->opcode <= 0x8f)
            return set(ret, INSN_BRANCH, target);
        return p->opcode == 0x0b && set(ret, INSN_STOP, 0);
    }
    switch (p->opcode) {
    case 0xe8:
        return set(ret, INSN_CALL, target);
    case 0xe9:
    case 0xeb:
        return set(ret, INSN_JUMP, target);
    case 0xe0:
    case 0xe1:
    case 0xe2:
    case 0xe3:
        return set(ret, INSN_BRANCH, target);
    case 0xc2:
    case 0xc3:
        return set(ret, INSN_RETURN, 0);
    case 0xcc:
    case 0xf4:
        return set(ret, INSN_STOP, 0);
    case 0xc7: /* xbegin: goes to its target when the transaction fails */
        return p->mod == 3 && (p->reg & 7) == 7 && set(ret, INSN_BRANCH, target);
    default:
        return p->opcode >= 0x70 && p->opcode <= 0x7f && set(ret, INSN_BRANCH, target);
    }
}

/* ff /2 to /6: call, far call, jmp, far jmp, push. */
static bool classify_indirect(const struct parse *p, uint64_t next, struct insn *ret)
{
    bool slot = p->rip_relative && !p->segment;
    int64_t address = (int64_t)(next + (uint64_t)p->displacement);

    switch (p->reg & 7) {
    case 2:
        return slot ? set(ret, INSN_CALL_SLOT, address) : set(ret, INSN_CALL_INDIRECT, 0);
    case 4:
        return slot ? set(ret, INSN_JUMP_SLOT, address) : set(ret, INSN_JUMP_INDIRECT, 0);
    case 6:
        return p->word ? set(ret, INSN_SP_UNKNOWN, 0) : set(ret, INSN_SP_ADD, -8);
    default:
        return false;
    }
}

static bool classify_push_pop(const struct parse *p, struct insn *ret)
{
    int reg = (p->opcode & 7) | (p->rex & 1) << 3;

    switch (p->opcode) {
    case 0x68:
    case 0x6a:
    case 0x9c: /* pushf */
        return p->word ? set(ret, INSN_SP_UNKNOWN, 0) : set(ret, INSN_SP_ADD, -8);
    case 0x9d: /* popf */
        return p->word ? set(ret, INSN_SP_UNKNOWN, 0) : set(ret, INSN_SP_ADD, 8);
    case 0x8f:
        if (p->word || (p->mod == 3 && (p->rm == RSP || p->rm == RBP)))
            return set(ret, INSN_SP_UNKNOWN, 0);
        return set(ret, INSN_SP_ADD, 8);
    case 0xc8: /* enter */
        return set(ret, INSN_SP_UNKNOWN, 0);
    case 0xc9:
        return set(ret, INSN_LEAVE, 0);
    default:
        break;
    }
    if (p->opcode < 0x50 || p->opcode > 0x5f)
        return false;
    if (p->word || (p->opcode >= 0x58 && reg == RSP))
        return set(ret, INSN_SP_UNKNOWN, 0);
    if (p->opcode < 0x58)
        return set(ret, INSN_SP_ADD, -8);
    return reg == RBP ? set(ret, INSN_POP_FRAME, 8) : set(ret, INSN_SP_ADD, 8);
}

/* lea, and mov between the two registers. Only the 64-bit forms. */
static bool classify_move(const struct parse *p, uint64_t next, struct insn *ret)
{
    bool lea = p->opcode == 0x8d && p->plain_base && !p->narrow;
    int to, from;

    if (!(p->rex & 8))
        return false;
    if (p->opcode == 0x8d && p->rip_relative)
        return p->reg == RDI && set(ret, INSN_LEA, (int64_t)(next + (uint64_t)p->displacement));
    if (p->opcode == 0x8b && p->rip_relative && !p->segment)
        return p->reg == RDI && set(ret, INSN_LOAD, (int64_t)(next + (uint64_t)p->displacement));
    if (!lea && p->mod != 3)
        return false;
    if (lea || p->opcode == 0x8b) {
        to = p->reg;
        from = p->rm;
    } else if (p->opcode == 0x89) {
        to = p->rm;
        from = p->reg;
    } else {
        return false;
    }
    if (to == RSP && from == RSP)
        return set(ret, INSN_SP_ADD, p->displacement);
    if (to == RSP && from == RBP)
        return set(ret, INSN_SP_FROM_FRAME, p->displacement);
    if (to == RBP && from == RSP)
        return set(ret, INSN_FRAME_FROM_SP, p->displacement);
    return lea && from == RBP && to != RSP && to != RBP && set(ret, INSN_LEA_FRAME, p->displacement);
}

/* 81 and 83 with rsp: /0 add, /4 and, /5 sub; /7 compares. */
static bool classify_arithmetic(const struct parse *p, struct insn *ret)
{
    if ((p->opcode != 0x81 && p->opcode != 0x83) || p->mod != 3 || p->rm != RSP || !(p->rex & 8))
        return false;
    switch (p->reg & 7) {
    case 0:
        return set(ret, INSN_SP_ADD, p->immediate);
    case 5:
        return set(ret, INSN_SP_ADD, -p->immediate);
    case 4:
        if (p->immediate < 0 && p->immediate >= -4096 && (p->immediate & -p->immediate) == -p->immediate)
            return set(ret, INSN_SP_ALIGN, -p->immediate);
        return false;
    default:
        return false;
    }
}

static bool classify_one_byte(const struct parse *p, uint64_t next, struct insn *ret)
{
    if (p->opcode == 0xff)
        return classify_indirect(p, next, ret);
    /* A static, position-dependent _start: mov $main,%rdi. */
    if (((p->opcode == 0xc7 && p->mod == 3 && p->rm == RDI && (p->reg & 7) == 0 && p->rex & 8) ||
         (p->opcode == 0xbf && !(p->rex & 9) && !p->word)))
        return set(ret, INSN_LEA, (int64_t)(uint32_t)p->immediate);
    return classify_branch(p, next, ret) || classify_push_pop(p, ret) || classify_move(p, next, ret) ||
           classify_arithmetic(p, ret);
}

static void classify(const struct parse *p, uint64_t next, struct insn *ret)
{
    set(ret, INSN_OTHER, 0);
    if (!p->vector && p->map == MAP_ONE && classify_one_byte(p, next, ret))
        return;
    if (!p->vector && p->map == MAP_0F && classify_branch(p, next, ret))
        return;
    if (!p->vector && is_old_byte_register(p))
        return;
    if (written(p) == RSP || written_too(p) == RSP)
        set(ret, INSN_SP_UNKNOWN, 0);
    else if (written(p) == RBP || written_too(p) == RBP)
        set(ret, INSN_FRAME_UNKNOWN, 0);
}

/* iret, syscall's kin, far transfers: no compiled function does that in its middle. */
static bool is_strange(const struct parse *p)
{
    static const uint8_t far[] = {0xca, 0xcb, 0xcf};

    for (size_t i = 0; !p->vector && p->map == MAP_ONE && i < sizeof(far); i++)
        if (p->opcode == far[i])
            return true;
    return !p->vector && p->map == MAP_ONE && p->opcode == 0xff &&
           ((p->reg & 7) == 3 || (p->reg & 7) == 5 || (p->reg & 7) == 7);
}

bool insn_decode(const uint8_t *code, size_t size, uint64_t address, struct insn *ret)
{
    struct parse p = {.code = code, .size = size < INSN_MAX_LENGTH ? size : INSN_MAX_LENGTH};

    if (!parse(&p) || is_strange(&p))
        return false;
    ret->length = (uint8_t)p.at;
    classify(&p, address + p.at, ret);
    return true;
}
