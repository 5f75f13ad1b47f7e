import { ChatInput } from './chat_input.js'
import { copyLook } from './copies.js'
import { Curves } from './curves.js'
import { WhatWasFed } from './fed.js'
import { GraphDrawing } from './graph_drawing.js'
import { GraphInput } from './graph_input.js'
import { GraphThumbnail } from './graph_thumbnail.js'
import { Guide } from './guide.js'
import { Heard } from './heard.js'
import { Inside } from './inside.js'
import { Labels, LabelWords } from './labels.js'
import { arrive } from './lazy.js'
import { Marked } from './marked.js'
import { Ranked } from './ranked.js'
import { Several } from './several.js'
import { Share } from './share.js'
import { SoundInput } from './sound_input.js'
import { SoundView } from './sound_view.js'
import { Spans } from './spans.js'

arrive({
  ChatInput, Curves, GraphDrawing, GraphInput, GraphThumbnail, Guide, Heard, Inside, Labels, LabelWords, Marked, Ranked,
  Several, Share, SoundInput, SoundView, Spans, WhatWasFed, copyLook,
})
