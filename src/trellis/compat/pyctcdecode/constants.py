"""pyctcdecode's defaults."""

import math

DEFAULT_ALPHA = 0.5
DEFAULT_BETA = 1.5
DEFAULT_UNK_LOGP_OFFSET = -10.0
DEFAULT_BEAM_WIDTH = 100
DEFAULT_HOTWORD_WEIGHT = 10.0
DEFAULT_PRUNE_LOGP = -10.0
DEFAULT_PRUNE_BEAMS = False
DEFAULT_MIN_TOKEN_LOGP = -5.0
DEFAULT_SCORE_LM_BOUNDARY = True

AVG_TOKEN_LEN = 6  # letters; the penalty of longer unknown words grows with their length
MIN_TOKEN_CLIP_P = 1e-15  # smaller probabilities are set to this value, so log p is finite
LOG_BASE_CHANGE_FACTOR = math.log(10.0)  # language models store log10
