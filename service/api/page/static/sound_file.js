import { exampleOf } from './image_file.js'

const RATE = 16000 // samples a second of what is drawn

/** Return the samples of a sound, the mean of its channels. */
async function decoded(file) {
  const sound = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(await file.arrayBuffer())
  const channels = Array.from({ length: sound.numberOfChannels }, (_, at) => sound.getChannelData(at))
  return channels[0].map((_, at) => channels.reduce((sum, one) => sum + one[at], 0) / channels.length)
}

/** Return a sound as what is sent: `blob`, `name`, and the `samples` that are drawn; null where none can be read. */
export async function soundOf(file, name) {
  return { kind: 'sound', blob: file, name, samples: await decoded(file).catch(() => null), rate: RATE }
}

/** Return the sound of an example, as what is sent, and the `path` that it is fetched from. */
export const exampleSound = (address) => exampleOf(address, (blob) => soundOf(blob, 'example.wav'))

/** Return samples of 16 bits, of one channel, as a WAV file. */
export function wavOf(samples, rate) {
  const head = new DataView(new ArrayBuffer(44))
  const words = (at, text) => [...text].forEach((letter, step) => head.setUint8(at + step, letter.charCodeAt(0)))
  const bytes = 2 * samples.length
  words(0, 'RIFF')
  head.setUint32(4, 36 + bytes, true)
  words(8, 'WAVEfmt ')
  head.setUint32(16, 16, true)
  head.setUint16(20, 1, true) // whole numbers
  head.setUint16(22, 1, true) // channels
  head.setUint32(24, rate, true)
  head.setUint32(28, 2 * rate, true)
  head.setUint16(32, 2, true)
  head.setUint16(34, 16, true)
  words(36, 'data')
  head.setUint32(40, bytes, true)
  const body = new DataView(new ArrayBuffer(bytes))
  samples.forEach((one, at) => body.setInt16(2 * at, Math.round(Math.max(-1, Math.min(one, 1)) * 32767), true))
  return new Blob([head, body], { type: 'audio/wav' })
}
