const NUMBERS = ['max_new_tokens', 'num_beams', 'temperature', 'top_k', 'top_p', 'seed']
const LANGUAGES = ['source_language', 'target_language']

/** Options of generation that another model does not keep. */
export const GENERATION = [...NUMBERS, ...LANGUAGES]

/** Return the options of generation that are chosen. */
export function generationOf(model, selection) {
  const chosen = (names) => names.filter((name) => selection[name] !== '')
  return {
    seed: 0,
    ...Object.fromEntries(chosen(NUMBERS).map((name) => [name, Number(selection[name])])),
    ...Object.fromEntries(chosen(LANGUAGES).map((name) => [name, selection[name]])),
    ...(Number(selection.alternatives) && { alternatives: Number(selection.alternatives) }),
  }
}
