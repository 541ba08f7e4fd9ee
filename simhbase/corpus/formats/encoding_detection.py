"""Detects the encoding of a source that does not say it: UTF-8 or GB18030.

The first texts beyond ASCII decide. The source is in UTF-8 if those that do not look like GB18030 have at
least 4 characters beyond ASCII in UTF-8. Otherwise it is in GB18030 if some are not valid in UTF-8 and, read
so, letters that are common in Chinese outnumber others by 6. Otherwise nothing is converted, and texts that
are not UTF-8 are rejected.
UTF-16 and UTF-32 are told by their byte order mark before (`corpus/streams.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simhbase.text.packing import Unreadable

if TYPE_CHECKING:
    from simhbase.corpus.record import TooLong

DECIDING_LINES, DECIDING_BYTES = 1000, 1 << 20  # from the first text on that is beyond ASCII
_CERTAIN_CHARACTERS = 4  # valid by chance in UTF-8 once in thousands of texts of GB18030
_LOOKED_AT = 1000  # characters of a text
_HIGH = re.compile(rb"[\x80-\xff]")
# Possessive: what it could go back to takes 80 bytes of memory for each character.
_GB2312 = re.compile(rb"(?:[\x00-\x7f]++|[\xa1-\xf7][\xa1-\xfe])*+")
_LETTERS = re.compile("[\u00c0-\u1fff\u2c00-\u2fff\u3041-\ufaff\U00020000-\U0003ffff]")
# Nearly all letters of Chinese texts are common, and less than a third of those of texts in other encodings
# that are read as GB18030. So a source must have more common letters than others, by a margin that chance
# does not give (9 of 10 letters); a text of a Chinese source must only not contradict.
_MARGIN, _TOLERANCE = 6, 2
# The 1,000 most frequent ones in jieba's dictionary.
_COMMON = frozenset(
    "一是人了不在有大中国和为这上他个地年来我会以到时要出的生学说道民家子也成行下们于后就发自之对得主长可"
    "过天作分方用多你着部能市等业全里工公经本都而高政法面门动日进区事代那去心小同北定开产前其军还然起种所"
    "如现理机体表力好外与文当两实重新三么只山水关明从化平建又制南内西没此将员名手最东头者月间无安看见各城"
    "十相但已些正口通想度加第她合院物性战由位常点海意场武使次二向治因立数样身情入原问把路被并利石老教万知"
    "级量任江及应省资委务元美特期世湖回系比气汉总展电科金先声提品设或义王社很统处四首共马形己儿司太目基领"
    "队直计别女权话少流命至报米给打变果书清活几州华解议更称程今决张导术府才保交放管结师便走达族反再题色五"
    "京河接条规式县白它改风光运信受什组听布百济党指论强做取技黄神选记斯真却职号界件花类何眼兵传带空干农边"
    "据集联古广完质阳难增历史专官每住商即步认车台林必死游举线言皇土团收考求德叫近备研争非具李众连调感转笑"
    "革该持始英克士尔让拉思根格造较际亲单朝红型价校约器字段周亚深候则功属积快图火千准究往极育装许参半令吃"
    "观鱼精办像帝八复影告远群包整构料随划算象容示投势热值夫网望源息语股铁断派速怎需片爱律纪支早况病境证编"
    "越局推满且列觉服双未居除乐企引标确织初青志率项飞球节察龙响药站施均消客失轻存低甚般击曾防请离落显罗营"
    "足素视护副食创余照兴占巴虽洲村费易试星木黑左宝置跟央识维采六底宫房音环案批切斗富乡另倒若按查故突责严"
    "桥模仅胜杀围席态破承招杨负层须父供续状域似依银范修找九致密终血旅钱赛独细效玉冲获习医演毛尽脸弹楼艺航"
    "陆右协七攻镇检写苏宗章注阿抗弟坐验封紧劳户优财养适陈喜卫排射哥油刻留急降念云微伤例景拿绝阶座刘刚害印"
    "亿沙母酒助闻超审待压升送监策略限竟香配藏敌呢差仍兰温园树征善波哪词岛止预怕继皮执味份角草男普答益谁船"
    "惊核街夏宣掌田久著画辑奇尼剑吧谈背免孩礼材愿洋春架筑括晚乱乎讲尚良友临激刀夜室既敢邦挥昌板胡欧福港叶"
    "简苦担句岁荆贵娘守辖威宜衣帮块堂额错剧充欢够孙班呼阵销坚练脚退读测吴希宁换版异某顾曲楚典朱毒菜判救宋"
    "茶洪含顺啊鲜败货矿端兄归冷忙买险康评肉吗厂永哈沉散遗停笔假输牛洞松渐顶训录否述毕督控丰献姑忽爷互亮纳"
    "襄登咱钟伯臣雄季脑介鄂召饭暗扩祖齐短烈赶牌恩诉移诗础露届蒙静喝盘卖植授伊湾博痛减穿逐秘庭陵固禁票灵杂"
    "姓泽吸侧庆妈遇追甲馆补唐炮沿殿刺怪彩俄旧警索岸轮妇载靠附毫怀软骨探雷旁罪枪牙迎序慢盛雨墙恶谷顿危稳熟"
)


@dataclass
class DetectedEncoding:
    """The encoding of one source, by its texts in order, which it converts to UTF-8.

    Nothing is guessed for a source that has shown UTF-8, and nothing from a few letters: texts that are not
    UTF-8 stay as they are, and are rejected. note: gets what was found, if it is not UTF-8. is_gb18030: None
    until that is decided.
    """

    note: Callable[[str], None]
    is_gb18030: bool | None = None

    def decide(self, texts: Iterable[bytes]) -> None:
        """Decide by the texts that come next, if they show the encoding."""
        if self.is_gb18030 is not None:
            return
        characters = common = others = 0
        are_utf8 = True
        for data in texts:
            if not data.isascii():
                text, in_utf8 = _in_gb18030(data), _characters_of_utf8(data)
                balance = _letters(text, data)
                common, others = common + balance[0], others + balance[1]
                characters += 0 if _is_plausible(text, data) else in_utf8
                are_utf8 = are_utf8 and in_utf8 > 0
        is_utf8 = characters >= _CERTAIN_CHARACTERS
        if is_utf8:
            self.is_gb18030 = False
        elif not are_utf8 and common >= others + _MARGIN:
            self.is_gb18030 = True
            self.note("GB18030, not UTF-8")

    def converted(self, data: bytes) -> bytes:
        """A text in UTF-8, unchanged if it cannot be decoded with certainty."""
        if not self.is_gb18030 or data.isascii():
            return data
        text = _in_gb18030(data)
        is_short = 0 < _characters_of_utf8(data) < _CERTAIN_CHARACTERS  # also in UTF-8, which may be chance
        return text.encode() if text is not None and (is_short or _is_plausible(text, data)) else data

    def lines(self, lines: Iterator[bytes | TooLong]) -> Iterator[bytes | TooLong]:
        """All lines of the source, in UTF-8. A line beyond ASCII waits for others that show the encoding."""
        for line in lines:
            if not isinstance(line, bytes) or line.isascii():
                yield line
                continue
            following: list[bytes | TooLong] = []
            damage = None
            if self.is_gb18030 is None:
                if _characters_of_utf8(line) < _CERTAIN_CHARACTERS or _is_plausible(_in_gb18030(line), line):
                    damage = _take(lines, following)
                self.decide(each for each in (line, *following) if isinstance(each, bytes))
                self.is_gb18030 = bool(self.is_gb18030)
            for each in (line, *following):
                yield self.converted(each) if isinstance(each, bytes) else each
            if damage:
                raise damage
            if not self.is_gb18030:  # nothing is converted any more
                yield from lines


def _take(lines: Iterator[bytes | TooLong], taken: list[bytes | TooLong]) -> Unreadable | None:
    """Take the lines that decide about an encoding; the damage that ends them, if any."""
    size = 0
    try:
        for line in lines:
            taken.append(line)
            size += len(line) if isinstance(line, bytes) else 0
            if len(taken) == DECIDING_LINES or size >= DECIDING_BYTES:
                break
    except Unreadable as error:
        return error
    return None


def _characters_of_utf8(data: bytes) -> int:
    """Number of characters beyond ASCII of a text in UTF-8; 0 if it is in another encoding."""
    try:
        return sum(not character.isascii() for character in data.decode()[:_LOOKED_AT])
    except UnicodeDecodeError:
        return 0


def _in_gb18030(data: bytes) -> str | None:
    try:
        return data.decode("gb18030")
    except UnicodeDecodeError:
        return None


def _letters(text: str | None, data: bytes) -> tuple[int, int]:
    """Number of letters that are common in Chinese, and of others. text: the data in GB18030, if it is."""
    if text is None:
        return 0, len(_HIGH.findall(data)) // 2 + 1
    letters = _LETTERS.findall(text[:_LOOKED_AT])
    common = sum(letter in _COMMON for letter in letters)
    return common, len(letters) - common


def _is_plausible(text: str | None, data: bytes) -> bool:
    """True if a text of a source in GB18030 looks so itself. text: the data in GB18030, if it is."""
    common, others = _letters(text, data)
    is_balanced = common + _TOLERANCE >= others and bool(common or _GB2312.fullmatch(data))
    return text is not None and is_balanced
