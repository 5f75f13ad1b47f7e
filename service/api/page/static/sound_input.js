import { html, useEffect, useRef, useState } from './preact.js'
import { soundOf, wavOf } from './sound_file.js'

const NAME = 'recording.wav'
const NO_MICROPHONE = 'Browsers give a microphone to pages of https and of localhost alone: this is neither.'
const REFUSED = 'The browser gave no microphone: allow it for this page, or see whether there is one.'

/** Begin to record; return what ends it, and gives the sound as a WAV file. */
async function record() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
  const context = new AudioContext()
  await context.audioWorklet.addModule('page/recorder.js')
  const recorder = new AudioWorkletNode(context, 'recorder', { channelCount: 1, channelCountMode: 'explicit' })
  const blocks = []
  recorder.port.onmessage = ({ data }) => blocks.push(data)
  context.createMediaStreamSource(stream).connect(recorder).connect(context.destination) // which hears silence
  return async () => {
    stream.getTracks().forEach((track) => track.stop())
    const { sampleRate } = context
    await context.close()
    const samples = new Float32Array(blocks.reduce((sum, { length }) => sum + length, 0))
    blocks.reduce((at, block) => (samples.set(block, at), at + block.length), 0)
    return wavOf(samples, sampleRate)
  }
}

/** Return the address of a file for as long as it is shown. */
function useAddress(blob) {
  const [address, set] = useState(null)
  useEffect(() => {
    if (!blob) return set(null)
    const made = URL.createObjectURL(blob)
    set(made)
    return () => URL.revokeObjectURL(made)
  }, [blob])
  return address
}

/** Takes a sound that is chosen or recorded, and plays it; `take` is given it as `soundOf` returns it, or a promise. */
export function SoundInput({ sound, take, over }) {
  const [recording, setRecording] = useState(null) // what ends it
  const [said, say] = useState('')
  const file = useRef(null)
  const address = useAddress(sound?.blob)
  const able = Boolean(navigator.mediaDevices?.getUserMedia)
  const choose = () => {
    const [chosen] = file.current.files
    if (chosen) take(soundOf(chosen, chosen.name))
    file.current.value = '' // the same may be chosen again
  }
  const press = async () => {
    say('')
    if (recording) {
      setRecording(null)
      take(recording().then((blob) => soundOf(blob, NAME)))
    } else await record().then((end) => setRecording(() => end), () => say(REFUSED))
  }
  return html`<div class=${over ? 'dropping' : ''}>
    <p class="quiet">${sound ? sound.name : 'Record something, or drop or paste a sound.'}
      ${sound && !sound.samples && ': the browser cannot play it, the model may read it.'}</p>
    ${address && html`<audio id="player" controls src=${address} aria-label="The sound"></audio>`}
    <div class="row">
      <button type="button" id="record" disabled=${!able} aria-pressed=${String(Boolean(recording))} onClick=${press}>
        ${recording ? 'Stop' : 'Record'}</button>
      <button type="button" id="choose" onClick=${() => file.current.click()}>Choose a sound</button>
      <input type="file" accept="audio/*" id="choose-file" aria-label="Choose a sound" hidden ref=${file}
        onChange=${choose} />
    </div>
    ${!able && html`<p class="quiet">${NO_MICROPHONE}</p>`}
    ${recording && html`<p role="status">Recording …</p>`}
    ${said && html`<p class="problem" role="alert">${said}</p>`}
  </div>`
}
