import { copyLook } from './copies.js'
import { Curves } from './curves.js'
import { WhatWasFed } from './fed.js'
import { Guide } from './guide.js'
import { Inside } from './inside.js'
import { arrive } from './lazy.js'
import { Passages } from './passages.js'
import { Several } from './several.js'
import { Share } from './share.js'

arrive({ Curves, Guide, Inside, Passages, Several, Share, WhatWasFed, copyLook })
