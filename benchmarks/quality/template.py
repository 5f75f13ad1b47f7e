"""The text of docs/quality.md around its tables."""

TEMPLATE = """# Which explanation to trust

Written by `make quality`, which measures what is missing in [quality.json](quality.json); nothing here is written by
hand. `make quality ARGS="digits minilm"` measures these parts anew. All of them take about half an hour of one CPU
core, half of it for training; `build/quality/` keeps what was trained. The code is in `benchmarks/quality/`.
[attention.md](attention.md) says what the methods are.

## In short

| Question | Method | Because |
|---|---|---|
| What speaks for this class, and what for that one? | `libra` | {short_glyphs} |
| Which part of an image must stay for the answer to stay? | `integrated`; for one thing on a plain ground also `rollout`, at a small part of the cost | {short_digits} |
| Which token of the source does this generated or masked token come from? | `libra` | {short_dates} |
| Which words make two texts alike? | `libra` | {short_minilm} |
| Where did a recurrent decoder look before a word? | `raw`, which is all that it has | {short_captions} |
| When was each word of a sound heard? | `raw` of the cross-attention of the last layer | {short_spoken_digits} |
| Where is the evidence for an object that was found? | `libra` or `integrated`; `relevance` points as well and is less sparing | {short_objects} |
| Where is what a label says, and what says this one rather than that? | `relevance`; against the other label `libra` or `integrated` | {short_labels} |
| What was mixed into what, whatever the answer? | `raw`, `norm`, `rollout` | they know of no class: of two pieces of evidence they find the one that is asked for half of the time at best |

`method=best` asks for the method that measured best on a bundled model, by one measure of its task:

{best}

These values stand in `model/bundled/<name>/best.json`, and the export copies them into the artifact. Of two methods
with the same figure, the one with more mass on the truth is taken. Models that are not in the table were not
measured.

## How it was measured

The methods are those of the definitions in `model/`, in single floats; the export compares each graph with them.
`raw` and `norm` are of the last layer, heads fused by their mean, as the service answers by default. `integrated`
takes 16 steps from the first baseline that a model has: a black image, mask tokens (`dates-mlm`, `minilm`) or padding
(`dates`, `dates-clm`). *Gradient x input* is the plain gradient, *random* are random numbers; both are there to
compare with. After a mean over seeds stand the least and the most of three seeds; after ± and in brackets with 95 %
stands an interval of 95 %: of a mean by its standard error, of a share by Wilson. All of it ran on two CPU cores.

Only right answers are explained, but for `digits` and `minilm`, where all are. *Pointing*: the share in which the
hottest patch or token is evidence. *Mass*: the share of the positive part of a map that lies on the evidence.
*Precision*: of the k hottest patches, the share that is evidence, where k patches are (Arras et al. 2022).

## Known truth: glyphs among distractors

A Vision Transformer (48 x 48 pixels, patches of 6, four layers) says which of five glyphs stand in a picture, beside
three to five other figures of the same size. It is trained here with seeds 0, 1 and 2, in three settings: each glyph
a sigmoid, one in the picture; the same with two in the picture, asked for each; a softmax, one in the picture. There
are 400 pictures that it has not seen. The evidence is the patches that ink of the glyph touches.

{asked}

{glyphs}

Of five glyphs of which exactly one is there, four suffice: a model with a softmax may take one for granted unless it
sees another, and then the answer does not rest on the glyph, so that the truth is not where we put it. Therefore the
same for the answers that do rest on it: with the glyph left out of the same picture, the answer is another.

{resting}

## Known truth: textured patches

Images of 6 x 6 patches in four colours; the classes are the colours of the patches that have a texture, one or two of
them. A ViT of two layers learns it in seconds, so `make test` can hold these figures. 300 unseen images.

{spots}

## Does the answer depend on it? Digits

Areas of deletion and insertion as `evaluate` computes them, over 360 held-out scans, each for the class that it is
taken for. *Less rollout* is the mean difference from rollout on the same scan, with its own interval, which is
narrower than those of the areas: scans that are hard for one method are hard for all. *Brightness* is that of the
patches; it knows nothing of the model.

{digits}

A black image is itself a 1 for this model, and what matters is mostly where there is ink, which every method finds.

## Which token does it come from? Dates

100 held-out dates whose year and day stand in the source once, six different digits: which character of the written
date is the hottest for each of these six characters of the answer? `dates` translates; `dates-clm` continues a line
such as `3 May 2021 = `, and `dates-mlm` fills one masked character of the ISO date in it; of both, the characters of
the written date alone count, whatever else in the line is hot. The table has the *alignment error*, the share of
characters whose hottest source is another, with its interval (the characters of one date are not independent, so it
is rather too narrow), and the mean mass on the right character.

{dates}

For `dates` the last layer happens to align without an error. That is not known beforehand: other layers and rows do
not, as the errors of each layer show, for the row that emits a character and the row to which it is the input:

{layers}

The same for an encoder-decoder that is trained in a minute to reverse a sequence, 300 unseen sequences:

{reversal}

## Which characters make an entity? Parts of dates

`dates-tags` labels each character of a text by the part of a date that it is in. Parts of texts of held-out days, each
by the label of its first character against `O`: is the hottest of all characters one of the part? These parts
tell what they are by themselves: names of months and weekdays, ordinals, years of four digits or in words.
Of other numbers, as in 3/23/21, their order and what separates them decide, so that the evidence is not theirs alone.

{dates_tags}

## Why this text before that one? Readings of a date

`dates-rank` says which ISO date a written date means. Held-out dates with the right reading and a wrong one that differs
in one part: year, month or day. Is what speaks most against the wrong reading (the coldest character of a method with
signs, the hottest of others) a character of that part? Of the wrong reading, and of the written date: by the map of the
wrong reading, and by the difference of both maps, as `against` answers it. All dates, and those whose month is a name:
in 3/23/21 the order of the numbers decides too.

{dates_rank}

## What makes two texts alike? Sentences

`minilm`, 60 pairs of sentences that share one noun and no other word; which token of the first carries the cosine
with the second? `raw`, `norm`, `rollout` and `relevance` are the mean over the rows of all tokens, since the
embedding is a mean. *The hottest token* is one of all, `[CLS]` and `[SEP]` included.

{minilm}

## Where was each word read? Captions

These decoders are recurrent and have `raw` alone: there is nothing to choose from, and no other method to compare
with.

{captions}

## When was each word heard? Speech

`spoken-digits` on what 100 voices say that no training hears, each of an accent and a variant of espeak-ng at a pitch
and a speed: 1000 utterances of one to five digits that are said alone and joined with pauses, so that it is known when
each is said, and 1000 that are said in one breath. *Word error* is the share of words that are substituted, left out or
added. The *centre within the word*: the row of the cross-attention has its centre of mass, in seconds, between the
beginning and the end of the word, when all words before it are given.

{spoken_digits}

## What is in states that nobody labelled? Speech

A linear layer on the frozen answer of `spoken-tera`, on the means and deviations of the 40 mel bands, and on the answer
of the same network with random weights. Each voice says each digit twice, alone. *Digits*: fitted to 200 voices that
the network may have heard, asked of 100 that it has not. *Voices*: which of these 100, fitted to the even digits, asked
of the odd ones.

{spoken_tera}

## Where is a found object? Detection

`scenes-detr` on 300 held-out scenes, every digit that it finds with its class and a box that overlaps the true one by
at least a half. A cell of the grid of 8 x 8 is evidence if it touches the true box. The methods of a gradient explain
the logit of the object's class, without its box; `raw` and `norm` are of the cross-attention of the last of three
layers, and the other layers stand below.

{objects}

## Which part of a picture does a label name? Two towers

`scenes-clip`, and the same network trained without labels whose colours are swapped, on 150 held-out pictures of two
coloured digits. Pictures are asked for whose two labels, such as *a red seven*, are the likeliest two of all sixty: each
label, by its cosine with the picture, and against the label of the other digit, by the difference of both. A patch of
the 12 x 12 is evidence if it touches the box of the digit that is named. `raw`, `rollout` and `norm` know of no label, so
that of two digits they can find the one that is asked for half of the time at best.

{labels}

Neither network has learned in 1200 steps which colour belongs to which of two digits: the label of both is no more often
above the one with swapped colours than by chance, so swapped labels make no difference here. What a label is pointed at for
is its digit and its colour, each of which is there.

## Does attention say more than what stands out? Saliency

`saliency` (Itti, Koch & Niebur 1998) knows nothing of a model, and says what stands out in a picture. The pictures are
those of the two parts above, and of `scenes-dino` 1080 held-out digits, each alone somewhere on a ground of its own,
where a patch is evidence if it holds ink. The pictures of `scenes-detr` and `scenes-dino` are grey: they have three equal
channels here, and the service, which answers it of coloured pictures, refuses it.

{saliency}

Where a picture holds several digits, what stands out is one of them, not the one that is asked for. Where it holds one,
a map that points at it proves little: compare it with this row.

## Is it seen? Photographs

`photos` (DINOv2 ViT-S/14) on its four examples, the row of the class token. A pixel is seen if its colour differs from
that of the ground alone, the same picture with a map of zeros, by more than 5 (CIE 1976), where the model looks. Beside
the share of the pixels stands the share of the map that lies on them, in the mean and of the map that is seen least; and
Spearman's correlation of how far a cell's colours are from the ground with its value.

{photos}

## Is it found again? Parts of photographs

`method=similar` between each of the four photographs and a changed copy of it: how often the hottest patch is the right
one, or next to it, of 200 patches of the half that have most texture, as far as they are still in the picture.
Layers count from 0 to 11; without `layers` it is 7, two thirds of the depth. A cut is of the middle, but for one.

{matches}

## Does it depend on the weights?

The rank correlation of the maps of a trained model with those of the same definition with random weights (Adebayo et
al. 2018; all layers at once), three random models, 100 pictures each, seeds together. Near 0 is good: a map that is
much alike shows the picture rather than what was learned. After the mean stand the least and the most.

{random_weights}

`integrated` is 0 wherever a patch equals the baseline, whatever the model: on `digits` the black around the digit,
which makes its maps alike.

## A judge from outside

[Quantus](https://github.com/understandable-machine-intelligence-lab/Quantus) (Hedström et al. 2023), version 0.6, on
glyphs, sigmoid, one glyph, seed 0. It gets each map as a picture and the patches that touch the glyph as its mask;
for `RelevanceMassAccuracy` the positive part of a map, as ours. `PointingGame`, `RelevanceMassAccuracy` and
`RelevanceRankAccuracy` then have the definitions of pointing, mass and precision here. `TopKIntersection` is the
share of the four hottest patches that touch the glyph.

{judge}

## What it costs

How long the definition takes as a multiple of a prediction, in PyTorch, one thread, a batch of 8: the median of 11
pairs taken in turn. These are not the graphs that are served: [benchmarks/RESULTS.md](../benchmarks/RESULTS.md) has
their times.

{cost}

## What none of this tells

- Whether a map is right for your model and your input. These are small models, and the truth is known because the task
  was made so. Ask for `evaluate` on your own inputs, and compare with its random order.
- Why a wrong answer was given: wrong answers were left out.
- What evidence does together. All methods give each token a share of one score; if either of two pieces would do, or
  only both together, the shares do not say so.
- That something absent is a reason. Deletion to black cannot show it, and no measure here looks for it.
- How a method ranks on other tasks. By deletion and by alignment the order differs: `integrated` is first on `digits`
  and among the last on `dates` and `dates-clm`, where its baseline is padding; with mask tokens, on `dates-mlm`, it is
  far better. `libra` is first, or level with the first, wherever the evidence is known, but by insertion on `digits`
  `rollout` is better.
- More than three seeds can. A difference smaller than the range between seeds, or than the interval, is none.
"""
