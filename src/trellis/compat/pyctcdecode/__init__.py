"""pyctcdecode's decoder, implemented by `trellis.CTCDecoder`. KenLM is not needed for ARPA files.

>>> import numpy as np
>>> decoder = build_ctcdecoder(["", " ", "a", "b"])
>>> p = np.full((4, 4), 0.02)
>>> p[range(4), [2, 2, 1, 3]] = 0.94
>>> decoder.decode(np.log(p))
'a b'
>>> text, state, frames, acoustic, score = decoder.decode_beams(np.log(p))[0]
>>> frames
[('a', (0, 2)), ('b', (3, 4))]
"""

from trellis.compat.pyctcdecode.alphabet import Alphabet
from trellis.compat.pyctcdecode.decoder import BeamSearchDecoderCTC, build_ctcdecoder
from trellis.compat.pyctcdecode.language_model import LanguageModel

__all__ = ["Alphabet", "BeamSearchDecoderCTC", "LanguageModel", "build_ctcdecoder"]
