import { copyLook } from './copies.js'
import { Curves } from './curves.js'
import { WhatWasFed } from './fed.js'
import { Guide } from './guide.js'
import { Inside } from './inside.js'
import { Labels } from './labels.js'
import { arrive } from './lazy.js'
import { Marked } from './marked.js'
import { Ranked } from './ranked.js'
import { Several } from './several.js'
import { Share } from './share.js'
import { Spans } from './spans.js'

arrive({ Curves, Guide, Inside, Labels, Marked, Ranked, Several, Share, Spans, WhatWasFed, copyLook })
